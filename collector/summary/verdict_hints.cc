#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "collector/summary/failure_text.h"
#include "collector/summary/judge.h"
#include "collector/summary/run_text.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kWorthAHint = 10;  ///< a tenth of the peak

}  // namespace

void Judge::hints() {
  if (peak_ == nullptr || peak_->bytes == 0) return;
  growth();
  uint64_t temporary = 0;
  int64_t longest = 0;
  uint64_t listed = 0, unnamed = 0;
  std::map<std::string, uint64_t> by_module;  // of code without names
  for (const Holder& holder : peak_->holders) {
    listed += holder.bytes;
    if (holder.has_no_name()) {
      unnamed += holder.bytes;
      by_module[holder.module] += holder.bytes;
    }
    if (!holder.temporary || holder.longest_life_ns <= 0) continue;
    temporary += holder.bytes;
    longest = std::max(longest, holder.longest_life_ns);
  }
  if (temporary >= peak_->bytes / kWorthAHint && temporary > 0) {
    verdict_.hints.push_back(fmt::format("the peak was temporary: {} of it freed within {}",
                                         size(temporary), duration(longest)));
  }
  live_at_end();
  for (const Warning& warning : summary_.quality.warnings) {
    if (warning.code == WarningCode::kMadeCodeUnnamed) verdict_.hints.push_back(warning.message);
  }
  const bool by_site = summary_.grouped_by == "site" || summary_.grouped_by == "function";
  if (by_site && unnamed > listed / 2) {
    verdict_.hints.push_back(fmt::format("{} % of it has no names{}", percent(unnamed, listed),
                                         what_names(by_module, unnamed)));
  }
  resident();
  const auto slack = verdict_.device == nullptr
                         ? std::nullopt
                         : metric(verdict_.device->metrics, "device.ledger.pool_slack_bytes");
  if (slack.value_or(0) > peak_->bytes / kWorthAHint)
    verdict_.hints.push_back(fmt::format("pools keep {} more that nobody uses", size(slack)));
}

void Judge::live_at_end() {
  const bool is_whole = summary_.quality.exact && summary_.quality.log_complete && ended_well();
  const bool has_several = summary_.whole_run && summary_.whole_run->has_several();
  if (!is_whole || has_several || peak_->error_bytes || peak_->counted) return;
  const DeviceSummary* device = verdict_.device;
  uint64_t live = device == nullptr ? metric(summary_.metrics, "host.live_bytes").value_or(0)
                                    : metric(device->metrics, "device.live_bytes").value_or(0);
  for (const ArenaSummary& arena : summary_.arenas) {
    if (device == nullptr || arena.device != device->ordinal) continue;
    live -= std::min(live, arena.reserved_bytes - std::min(arena.reserved_bytes, arena.live_bytes));
  }
  if (live <= peak_->bytes / 2) return;
  verdict_.hints.push_back(fmt::format("still live at the end: {}, {} % as much as at the peak",
                                       size(live), percent(live, peak_->bytes)));
}

void Judge::resident_by_cause() {
  constexpr uint64_t kWorthWords = 32 << 20;
  const uint64_t total = *metric(summary_.metrics, "host.resident.total_bytes");
  const uint64_t peak = peak_->bytes;
  const uint64_t apart = total > peak ? total - peak : peak - total;
  if (apart < kWorthWords && !asked_is_not_resident()) return;
  std::string text;
  for (const ResidentCause& cause : resident_causes(summary_.metrics)) {
    if (cause.bytes > total / 50)
      text += fmt::format("{}{} {}", text.empty() ? "" : " · ", cause.text, size(cause.bytes));
  }
  const auto rss = metric(summary_.metrics, "host.rss.peak_bytes");
  text = (rss && is_seen_late(total, *rss)
              ? fmt::format("resident, of {} at most, when last looked at {}: ", size(rss),
                            size(total))
              : fmt::format("resident at most {}: ", size(total))) +
         text;
  const uint64_t untouched = metric(summary_.metrics, "host.never_touched_bytes").value_or(0);
  if (untouched >= kWorthWords)
    text += fmt::format("; asked for and not resident: {}", size(untouched));
  verdict_.hints.push_back(text);
}

void Judge::resident() {
  constexpr uint64_t kWorthWords = 32 << 20;
  const std::optional<uint64_t> rss = metric(summary_.metrics, "host.rss.peak_bytes");
  const Quality& quality = summary_.quality;
  if (verdict_.device != nullptr || !rss || !quality.exact || !quality.log_complete) return;
  const uint64_t peak = peak_->bytes;
  if (metric(summary_.metrics, "host.resident.total_bytes")) return resident_by_cause();
  if (*rss / 2 > peak && *rss - peak >= kWorthWords) {
    const std::optional<uint64_t> files =
        metric(summary_.metrics, "host.kind.mmap_file.peak_bytes");
    verdict_.hints.push_back(fmt::format(
        "RSS reached {}: {} of it or more is not in the peak, but code, files and shared "
        "memory{}, stacks, what an allocator kept, bare system calls mapped, or gpupeak has for "
        "itself",
        size(rss), size(*rss - peak),
        files.value_or(0) >= kWorthWords ? fmt::format(" (mapped: {})", size(files)) : ""));
  } else if (peak / 2 > *rss && peak - *rss >= kWorthWords) {
    verdict_.hints.push_back(
        fmt::format("{} of it or more was asked for and not resident: RSS never passed {}",
                    size(peak - *rss), size(rss)));
  }
}

void Judge::growth() {
  if (!summary_.oom.empty() && summary_.oom.back().growth.has_value()) return;
  const DeviceSummary* device = verdict_.device;
  std::string text =
      steps_text(summary_.growth, device == nullptr ? std::nullopt : std::optional(device->ordinal),
                 device == nullptr ? 0 : device->total_bytes, peak_->bytes, style_);
  if (text.empty()) return;
  verdict_.hints.push_back(std::move(text));
  const auto most = std::ranges::find_if(summary_.growth, [&](const GrowthSummary& growth) {
    return device == nullptr ? !growth.device : growth.device == device->ordinal;
  });
  const auto moment = [](int64_t ns) {
    return fmt::format("+{:.6f}s", static_cast<double>(ns) / 1e9);
  };
  step("diff --at " + moment(most->begin_ns) + " --at " + moment(most->end_ns), "what grew");
}

std::string Judge::what_names(const std::map<std::string, uint64_t>& by_module,
                              uint64_t unnamed) const {
  if (!summary_.names_were_looked_for) return ": the libraries' symbols could not be read";
  const auto most =
      std::ranges::max_element(by_module, [](auto& a, auto& b) { return a.second < b.second; });
  if (most == by_module.end() || most->first.empty()) return "";
  const bool is_alone = most->second >= unnamed - unnamed / kWorthAHint;
  const std::string& library = most->first;
  const auto not_read = [&](const Warning& warning) {
    return (warning.code == WarningCode::kModuleMissing ||
            warning.code == WarningCode::kModuleOfOtherBuild) &&
           warning.about == library;
  };
  const std::vector<Warning>& warnings = summary_.quality.warnings;
  const bool is_here = std::ranges::none_of(warnings, not_read);
  return fmt::format(", {} {}, which {} (docs/symbols.md)", is_alone ? "all in" : "most in",
                     library,
                     is_here ? "is stripped: its debug symbols give them"
                             : "is not here: gpupeak bundle takes them along where it is");
}

}  // namespace gpupeak::collector
