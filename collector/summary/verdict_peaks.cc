#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "collector/summary/arena_text.h"
#include "collector/summary/judge.h"
#include "collector/summary/run_text.h"
#include "collector/summary/whole_run_text.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kWorthALine = 4;  ///< a quarter of the peak

}  // namespace

std::string Judge::what_of_host() const {
  if (metric(summary_.metrics, "host.kind.heap.peak_bytes"))
    return "of the host each kind's peak was counted, and no sum";
  for (const Warning& warning : summary_.quality.warnings) {
    switch (warning.code) {
      case WarningCode::kHostNotMeasured:
        return "the host's was not measured: GPUPEAK_HOST=off";
      case WarningCode::kForkedChild:
        return "the host's was not measured: recording began in a forked child";
      case WarningCode::kBeganLate:
        return "the host's was not measured: recording began after the process had run a while";
      case WarningCode::kProgramsOwnMalloc:
        return "the heap was not measured: the program, or a library preloaded before gpupeak's, "
               "brings its own malloc";
      default:
        break;
    }
  }
  return "the host's was not measured";
}

bool Judge::is_of_fork() const {
  return std::ranges::any_of(summary_.quality.warnings, [](const Warning& warning) {
    return warning.code == WarningCode::kForkedChild;
  });
}

uint64_t Judge::heap_of_counted_child() const {
  const std::vector<Warning>& warnings = summary_.quality.warnings;
  const bool was_counted = std::ranges::any_of(
      warnings, [](const Warning& warning) { return warning.code == WarningCode::kCountedChild; });
  if (verdict_.device != nullptr || !was_counted) return 0;
  return heap_peak_bytes(summary_.metrics);
}

std::string Judge::by_whom() const {
  if (!summary_.whole_run || !summary_.whole_run->has_several()) return "";
  const WholeRun& run = *summary_.whole_run;
  return fmt::format(", by {} of {} processes", process_text(run.processes[run.lead]),
                     grouped(run.processes.size()));
}

std::string Judge::own_memory_text() const {
  const auto memory = metric(summary_.metrics, "host.memory.peak_bytes");
  const uint64_t seen = metric(summary_.metrics, "host.memory.seen_bytes").value_or(0);
  std::string text = size(memory);
  constexpr uint64_t kWorthWords = 100;
  if (*memory - seen > *memory / kWorthWords) text += " " + error_percent(*memory - seen, *memory);
  return text;
}

bool Judge::asked_is_not_resident() const {
  constexpr uint64_t kShare = 20, kLeast = 1 << 20;
  const auto memory = metric(summary_.metrics, "host.memory.peak_bytes");
  if (verdict_.device != nullptr || peak_ == nullptr || !memory || is_of_fork()) return false;
  const auto [less, more] = std::minmax(*memory, peak_->bytes);
  return more - less >= std::max(kLeast, more / kShare);
}

std::string Judge::resident_text() const {
  if (!asked_is_not_resident()) return "";
  constexpr std::string_view kAskedFor[] = {"heap in use", "mappings", "program code and files",
                                            "gpupeak's own"};
  std::string text = fmt::format("peak {} resident", own_memory_text());
  for (const ResidentCause& cause : resident_causes(summary_.metrics)) {  // the largest first
    if (std::find(std::begin(kAskedFor), std::end(kAskedFor), cause.text) != std::end(kAskedFor))
      continue;
    if (cause.bytes > peak_->bytes / kWorthALine)
      text += fmt::format(", {} of it {}", size(cause.bytes), cause.text);
    break;
  }
  return text + "; ";
}

std::string Judge::peak_text(bool forked) const {
  constexpr uint64_t kShare = 100, kLarge = 16 << 20;
  const std::string resident = resident_text();
  const uint64_t memory = metric(summary_.metrics, "host.memory.peak_bytes").value_or(0);
  const bool own_is_closer = verdict_.device == nullptr && !forked && resident.empty() &&
                             memory >= kLarge && !peak_->error_bytes &&
                             memory - std::min(memory, peak_->bytes) > memory / kShare;
  std::string text = fmt::format("{}{}",
                                 forked             ? "since the fork: peak +"
                                 : resident.empty() ? "peak "
                                                    : resident,
                                 own_is_closer ? own_memory_text() : size(peak_->bytes));
  if (peak_->error_bytes) text += " " + error_percent(*peak_->error_bytes, peak_->bytes);
  const std::optional<uint64_t> bound = metric(summary_.metrics, "host.peak_bytes");
  if (peak_->error_bytes && peak_->scope == "host" && bound && *bound < peak_->bytes)
    text += fmt::format(" (at most {} by exact counters)", size(bound));
  if (verdict_.device != nullptr) {
    if (verdict_.device->total_bytes > 0)
      text += fmt::format(" of {}", size(verdict_.device->total_bytes));
    text += " on " + device_text(*verdict_.device);
  } else {
    text += resident.empty() ? " of host memory" : " of heap and mappings";
  }
  text += peak_->counted ? ", by the counters: the log does not say when"
                         : " at " + instant(peak_->time_ns);
  if (peak_->phase) text += ", in " + *peak_->phase;
  return text;
}

void Judge::peaks() {
  if (summary_.whole_run) {
    if (std::string text = peak_at_once_text(*summary_.whole_run, style_); !text.empty()) {
      say(std::move(text));
      return;
    }
  }
  const std::optional<uint64_t> managed =
      verdict_.device == nullptr ? std::nullopt
                                 : metric(verdict_.device->metrics, "device.managed.peak_bytes");
  if (peak_ == nullptr && managed.value_or(0) > 0) {
    say(fmt::format("peak {} of managed memory of {}, which may lie there or on the host; no other "
                    "memory of a GPU was handed out",
                    size(managed), device_text(*verdict_.device)) +
        by_whom());
    return;
  }
  if (peak_ == nullptr) {
    say(verdict_.device != nullptr ? "no memory of a GPU was handed out"
        : metric(summary_.metrics, "host.peak_bytes")
            ? "nothing was allocated"
            : "no memory of a GPU was handed out, and " + what_of_host());
    return;
  }
  const bool forked = verdict_.device == nullptr && is_of_fork();
  if (const uint64_t heap = heap_of_counted_child(); heap > peak_->bytes) {
    say(fmt::format("{}{} of heap, by its counters", forked ? "since the fork: peak +" : "peak ",
                    size(heap)) +
        by_whom());
    return;
  }
  say(peak_text(forked) + by_whom());
  arena_growth();
  one_memory();
  other_devices();
}

void Judge::arena_growth() {
  if (verdict_.device == nullptr) return;
  const ArenaSummary* arena = idlest_arena(summary_, verdict_.device->ordinal);
  if (arena == nullptr || arena->at_device_peak->idle_bytes() < peak_->bytes / kWorthALine) return;
  if (std::string text = arena_growth_text(*arena, style_); !text.empty()) say(std::move(text));
}

void Judge::one_memory() {
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

void Judge::other_devices() {
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

}  // namespace gpupeak::collector
