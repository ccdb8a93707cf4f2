#include "collector/summary/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "collector/summary/failure_cause.h"
#include "collector/summary/failure_text.h"
#include "collector/summary/ledger_text.h"
#include "collector/summary/run_text.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxParts = 3;
constexpr size_t kNameColumns = 28;
constexpr uint64_t kWorthAHint = 10;  ///< a tenth of the peak

std::string first_frame(const std::string& title) {
  return title.substr(0, title.find(kArrow));
}

/// "libengine.so+0x200", "libengine.so (4 frames)".
bool has_no_name(const std::string& title) {
  const std::string frame = first_frame(title);
  return frame.find("+0x") != std::string::npos || frame.ends_with(" frames)");
}

class Judge {
 public:
  Judge(const Summary& summary, const TextStyle& style) : summary_(summary), style_(style) {}

  Verdict judge() {
    find_device();
    losses();
    failures();
    peaks();
    bar();
    hints();
    probes();
    steps();
    facts();
    return std::move(verdict_);
  }

 private:
  std::string size(const std::optional<uint64_t>& bytes) const { return size_text(bytes, style_); }
  void say(std::string text, bool alarming = false) {
    verdict_.sentences.push_back({std::move(text), alarming});
  }

  void find_device() {
    uint64_t largest = 0;
    verdict_.device = nullptr;
    for (const DeviceSummary& device : summary_.devices) {
      if (!was_used(device)) continue;
      ++used_devices_;
      const uint64_t peak = metric(device.metrics, "device.peak_bytes").value_or(0);
      if (verdict_.device != nullptr && peak <= largest) continue;
      verdict_.device = &device;
      largest = peak;
    }
    peak_ = summary_.find_peak(
        verdict_.device == nullptr ? "host" : fmt::format("device:{}", verdict_.device->ordinal));
  }

  void losses() {
    const Quality& quality = summary_.quality;
    std::string text = losses_text(quality);
    if (quality.only_heap_inexact && quality.dropped_events == 0) {
      const bool at_limit =
          std::any_of(quality.warnings.begin(), quality.warnings.end(),
                      [](const Warning& warning) { return warning.code == "GP033"; });
      if (at_limit) text += " since the log reached its limit";
      text += ": those of GPUs and mappings are";
    } else if (!quality.exact) {
      text += ": the figures are what was seen";
    }
    if (!quality.exact || !quality.log_complete) say(std::move(text), true);
  }

  const DeviceSummary* device(std::optional<int32_t> ordinal) const {
    for (const DeviceSummary& device : summary_.devices) {
      if (ordinal && device.ordinal == *ordinal) return &device;
    }
    return nullptr;
  }

  bool ended_well() const { return summary_.run.end.in_order(); }

  static bool is_of_memory(const FailureGroup& group) { return group.last->result == kOutOfMemory; }

  /// A program may ask for what this driver or card does not have, only to see whether it does.
  bool was_a_probe(const FailureGroup& group) const { return ended_well() && !is_of_memory(group); }

  /// Those that were probes, or those that were not.
  std::vector<FailureGroup> failure_groups(bool probes) const {
    std::vector<FailureGroup> groups = fold_failures(summary_);
    std::erase_if(groups, [&](const FailureGroup& group) { return was_a_probe(group) != probes; });
    return groups;
  }

  void failures() {
    const std::vector<FailureGroup> groups = failure_groups(false);
    if (groups.empty()) return;
    // The one that the program could not live with is the last.
    const FailureGroup& group = groups.back();
    const OutOfMemory& oom = *group.last;
    const DeviceSummary* where = device(oom.device);
    const bool of_memory = is_of_memory(group);
    std::string text = !ended_well() && of_memory ? "OUT OF MEMORY" : "an allocation failed";
    if (where != nullptr) text += " on " + device_text(*where);
    if (ended_well()) text += " and the program went on";
    text += oom.for_driver ? ": for the driver's own use by " + oom.api
                           : fmt::format(": {} asked", size(oom.requested_bytes));
    if (oom.refused_by) text += " of " + oom.refused_by->name;
    if (oom.driver_free_bytes) text += fmt::format(", {} free", size(oom.driver_free_bytes));
    text += fmt::format(", {} held", size(oom.live_bytes));
    if (!of_memory) text += fmt::format(" ({}: {})", oom.api, oom.result);
    if (group.count > 1) text += fmt::format(", {} times", grouped(group.count));
    if (groups.size() > 1) text += fmt::format("; {} other failures", grouped(groups.size() - 1));
    say(std::move(text), true);
    if (!of_memory) return;
    say("why: " + why_text(oom, style_));
    // What everybody knows need not be said on the first screen.
    const bool plain =
        !oom.causes.empty() && (oom.causes.front().cause == FailureCause::kFull ||
                                oom.causes.front().cause == FailureCause::kLargerThanCard);
    if (plain) return;
    if (const std::string help = help_text(oom, style_); !help.empty()) say("try: " + help);
  }

  void probes() {
    const std::vector<FailureGroup> groups = failure_groups(true);
    if (groups.empty()) return;
    const OutOfMemory& last = *groups.back().last;
    uint64_t count = 0;
    for (const FailureGroup& group : groups) count += group.count;
    verdict_.hints.push_back(fmt::format(
        "{} allocation{} refused, not for want of memory, and the program went on ({}: {})",
        grouped(count), count == 1 ? " was" : "s were", last.api, last.result));
  }

  /// Where there is no sum of it.
  std::string what_of_host() const {
    if (metric(summary_.metrics, "host.kind.heap.peak_bytes"))
      return "of the host each kind's peak was counted, and no sum";
    for (const Warning& warning : summary_.quality.warnings) {
      if (warning.code == "GP011") return "the host's was not measured: GPUPEAK_HOST=off";
      if (warning.code == "GP014")
        return "the host's was not measured: recording began in a forked child";
      if (warning.code == "GP015")
        return "the host's was not measured: recording began after the process had run a while";
      if (warning.code == "GP016")
        return "the heap was not measured: the program, or a library preloaded before gpupeak's, "
               "brings its own malloc";
    }
    return "the host's was not measured";
  }

  void peaks() {
    if (peak_ == nullptr) {
      say(verdict_.device != nullptr ? "no memory of a GPU was handed out"
          : metric(summary_.metrics, "host.peak_bytes")
              ? "nothing was allocated"
              : "no memory of a GPU was handed out, and " + what_of_host());
      return;
    }
    std::string text = fmt::format("peak {}", size(peak_->bytes));
    if (peak_->error_bytes) text += fmt::format(" ± {}", size(peak_->error_bytes));
    const std::optional<uint64_t> bound = metric(summary_.metrics, "host.peak_bytes");
    if (peak_->error_bytes && peak_->scope == "host" && bound && *bound < peak_->bytes)
      text += fmt::format(" (at most {} by exact counters)", size(bound));
    if (verdict_.device != nullptr) {
      if (verdict_.device->total_bytes > 0)
        text += fmt::format(" of {}", size(verdict_.device->total_bytes));
      text += " on " + device_text(*verdict_.device);
    } else {
      text += " of host memory";
    }
    text += " at " + instant(peak_->time_ns);
    if (peak_->phase) text += ", in " + *peak_->phase;
    say(std::move(text));
    one_memory();
    other_devices();
  }

  /// Where the device's memory is the host's, or both are within each other's reach, no figure of
  /// one side alone says what is left.
  void one_memory() {
    const DeviceSummary* device = verdict_.device;
    if (device == nullptr || !device->memory) return;
    if (device->is_integrated()) {
      const Peak* total = summary_.find_peak("total");
      say(fmt::format("its memory is the host's: {}",
                      total == nullptr ? "what the host had of it was not measured"
                                       : fmt::format("with host and managed memory, each byte "
                                                     "once, at most {} at {}",
                                                     size(total->bytes), instant(total->time_ns))));
    } else if (device->memory->host_page_tables) {
      say("it works on the host's memory in place: what malloc, mmap and cuMemAllocManaged give "
          "may "
          "lie on the card, which no call tells, and is counted as theirs alone");
    }
  }

  void other_devices() {
    if (used_devices_ < 2) return;
    uint64_t least = UINT64_MAX, most = 0;
    for (const DeviceSummary& device : summary_.devices) {
      if (&device == verdict_.device || !was_used(device)) continue;
      const uint64_t bytes = metric(device.metrics, "device.peak_bytes").value_or(0);
      least = std::min(least, bytes);
      most = std::max(most, bytes);
    }
    const std::string range =
        least == most ? size(most) : fmt::format("{} to {}", size(least), size(most));
    say(fmt::format("{} more GPU{}: {}", used_devices_ - 1, used_devices_ == 2 ? "" : "s", range));
  }

  void add_part(std::string name, int64_t bytes, uint64_t& left) {
    if (bytes <= 0) return;
    const uint64_t fits = std::min(static_cast<uint64_t>(bytes), left);
    left -= fits;
    if (fits > 0) verdict_.bar.push_back({cut(name, kNameColumns, style_), fits});
  }

  void bar() {
    if (verdict_.device == nullptr || peak_ == nullptr || verdict_.device->total_bytes == 0) return;
    uint64_t left = verdict_.device->total_bytes;
    uint64_t rest = peak_->bytes;
    size_t parts = 0;
    const auto part = [&](const std::string& name, uint64_t bytes) {
      if (parts == kMaxParts) return;
      ++parts;
      rest -= std::min(rest, bytes);
      add_part(name, static_cast<int64_t>(bytes), left);
    };
    for (const TagShare& tag : peak_->tags) {
      if (&tag != &peak_->tags.back()) part(tag.name, tag.bytes);
    }
    if (peak_->tags.empty()) {
      for (const Holder& holder : peak_->holders) part(first_frame(holder.title), holder.bytes);
    }
    add_part(parts == 0 ? "handed out" : "others", static_cast<int64_t>(rest), left);
    std::string free = verdict_.device->is_integrated() ? "free, the host's or the driver's"
                                                        : "free or the driver's";
    if (verdict_.device->ledger && is_of_peak(verdict_.device->ledger->at_peak, peak_)) {
      ledger_parts(verdict_.device->ledger->at_peak, left);
      free = "free";
    }
    if (left > 0) verdict_.bar.push_back({free, left, true});
  }

  void ledger_parts(const LedgerView& view, uint64_t& left) {
    int64_t driver = 0, unused = 0, others = 0, host = 0, unexplained = 0;
    for (const LedgerRow& row : view.rows) {
      if (row.cause == "start" || row.cause == "external")
        others += row.bytes;
      else if (row.cause == "pool_slack" || row.cause == "rounding")
        unused += row.bytes;
      else if (row.cause == "host")
        host += row.bytes;
      else if (row.cause == "unexplained")
        unexplained += row.bytes;
      else
        driver += row.bytes;
    }
    add_part("context and code", driver, left);
    add_part("reserved, not in use", unused, left);
    add_part("in use before", others, left);
    add_part("host memory", host, left);
    add_part("unexplained", unexplained, left);
  }

  void hints() {
    if (peak_ == nullptr || peak_->bytes == 0) return;
    uint64_t temporary = 0;
    int64_t longest = 0;
    uint64_t listed = 0, unnamed = 0;
    std::map<std::string, uint64_t> by_module;  // of what has no names
    for (const Holder& holder : peak_->holders) {
      listed += holder.bytes;
      if (has_no_name(holder.title)) {
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
    const bool by_site = summary_.grouped_by == "site" || summary_.grouped_by == "function";
    if (by_site && unnamed > listed / 2) {
      verdict_.hints.push_back(fmt::format("{} % of it has no names{}", percent(unnamed, listed),
                                           what_names(by_module, unnamed)));
    }
    resident();
    growth();
    const auto slack = verdict_.device == nullptr
                           ? std::nullopt
                           : metric(verdict_.device->metrics, "device.ledger.pool_slack_bytes");
    if (slack.value_or(0) > peak_->bytes / kWorthAHint)
      verdict_.hints.push_back(fmt::format("pools keep {} more that nobody uses", size(slack)));
  }

  /// Where what was resident is far from what was asked for, whichever is larger: of the whole run,
  /// whose largest RSS is known.
  void resident() {
    constexpr uint64_t kWorthWords = 32 << 20;
    const std::optional<uint64_t> rss = metric(summary_.metrics, "host.rss.peak_bytes");
    const Quality& quality = summary_.quality;
    if (verdict_.device != nullptr || !rss || !quality.exact || !quality.log_complete) return;
    const uint64_t peak = peak_->bytes;
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

  /// Unless it is told as the reason of a failure.
  void growth() {
    const bool told = !summary_.oom.empty() && summary_.oom.back().growth.has_value();
    for (const GrowthSummary& growth : summary_.growth) {
      const bool of_peak = verdict_.device == nullptr ? growth.side == "host"
                                                      : growth.device == verdict_.device->ordinal;
      if (told || !of_peak || growth.grown_bytes < peak_->bytes / kWorthAHint) continue;
      verdict_.hints.push_back("it grows: " + growth_text(growth, style_));
      return;  // the largest comes first
    }
  }

  /// Which library it is, and what gives its functions names.
  std::string what_names(const std::map<std::string, uint64_t>& by_module, uint64_t unnamed) const {
    if (!summary_.names_were_looked_for) return " yet: the libraries' symbols take longer to read";
    const auto most = std::max_element(by_module.begin(), by_module.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    if (most == by_module.end() || most->first.empty()) return "";
    const bool is_alone = most->second >= unnamed - unnamed / kWorthAHint;
    const std::string& library = most->first;
    const auto not_read = [&](const Warning& warning) {
      return (warning.code == "GP025" || warning.code == "GP026") &&
             warning.message.find("/" + library + " ") != std::string::npos;
    };
    const std::vector<Warning>& warnings = summary_.quality.warnings;
    const bool is_here = std::none_of(warnings.begin(), warnings.end(), not_read);
    return fmt::format(", {} {}, which {} (docs/symbols.md)", is_alone ? "all in" : "most in",
                       library,
                       is_here ? "is stripped: its debug symbols give them"
                               : "is not here: gpupeak bundle takes them along");
  }

  void step(std::string_view verb, std::string why) {
    verdict_.next.push_back(
        {fmt::format("gpupeak {} {}", verb, quoted(summary_.log_path)), std::move(why)});
  }

  void steps() {
    if (peak_ != nullptr && peak_->tags.size() > 1) step("tags", "by layer");
    const bool has_phases =
        std::any_of(summary_.phases.begin(), summary_.phases.end(),
                    [](const PhaseSummary& phase) { return phase.source != "auto"; });
    if (verdict_.next.empty() && has_phases) step("phases", "what each phase kept");
    step("report --html page.html", "a page to look around in");
  }

  void facts() {
    std::string& text = verdict_.facts;
    text = duration(summary_.run.duration_ns);
    const std::string exit = exit_text(summary_.run.end);
    if (!exit.empty()) text += " · " + exit;
    text += fmt::format(" · {} · log {}", events_text(summary_.quality), size(summary_.log_bytes));
    if (summary_.quality.exact && summary_.quality.log_complete) text += " · ✓ nothing lost";
    const std::vector<Warning>& warnings = summary_.quality.warnings;
    if (warnings.empty()) return;
    verdict_.warnings =
        fmt::format("{} warning{}:", warnings.size(), warnings.size() == 1 ? "" : "s");
    std::set<std::string_view> said;
    for (const Warning& warning : warnings) {
      if (said.insert(warning.code).second) verdict_.warnings += " " + warning.code;
    }
  }

  const Summary& summary_;
  const TextStyle& style_;
  const Peak* peak_ = nullptr;
  size_t used_devices_ = 0;
  Verdict verdict_;
};

}  // namespace

std::string quoted(const std::string& path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=@%+";
  if (!path.empty() && path.find_first_not_of(kPlain) == std::string::npos) return path;
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<FailureGroup> fold_failures(const Summary& summary) {
  std::vector<FailureGroup> groups;
  for (const OutOfMemory& oom : summary.oom) {
    if (oom.told_by_pool) continue;
    const auto alike = [&](const FailureGroup& group) {
      const OutOfMemory& other = *group.last;
      const bool same_pool = oom.refused_by.has_value() == other.refused_by.has_value();
      return same_pool && oom.device == other.device &&
             oom.requested_bytes == other.requested_bytes && oom.result == other.result &&
             oom.phase == other.phase && oom.title == other.title;
    };
    const auto known = std::find_if(groups.begin(), groups.end(), alike);
    uint64_t count = 1;
    if (known != groups.end()) {
      count += known->count;
      groups.erase(known);  // the order is that of the last ones
    }
    groups.push_back({&oom, count});
  }
  // The last ones are told first: what found no memory before what asked for nonsense.
  std::stable_partition(groups.begin(), groups.end(), [](const FailureGroup& group) {
    return group.last->result != kOutOfMemory;
  });
  return groups;
}

Verdict verdict_of(const Summary& summary, const TextStyle& style) {
  return Judge(summary, style).judge();
}

std::string bar_text(const std::vector<Verdict::Part>& parts, size_t columns) {
  constexpr std::array<std::string_view, 4> kShades = {"█", "▓", "▒", "░"};
  constexpr std::string_view kFree = "·";
  const uint64_t whole =
      std::accumulate(parts.begin(), parts.end(), uint64_t{0},
                      [](uint64_t sum, const Verdict::Part& part) { return sum + part.bytes; });
  std::string text;
  size_t used = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double share = static_cast<double>(parts[i].bytes) / static_cast<double>(whole);
    const size_t later = parts.size() - 1 - i;  // each needs a place
    size_t cells =
        std::max<size_t>(1, static_cast<size_t>(share * static_cast<double>(columns) + 0.5));
    const size_t room = columns > used + later ? columns - used - later : 1;
    cells = later == 0 ? room : std::min(cells, room);
    used += cells;
    while (cells-- > 0) text += parts[i].free ? kFree : kShades[i % kShades.size()];
  }
  return text;
}

std::string bar_legend(const std::vector<Verdict::Part>& parts, const TextStyle& style) {
  std::string text;
  for (const Verdict::Part& part : parts)
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : " · ", part.name, size_text(part.bytes, style));
  return text;
}

}  // namespace gpupeak::collector
