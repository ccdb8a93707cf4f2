#include "collector/summary/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "collector/summary/run_text.h"
#include "collector/text/lists.h"
#include "collector/text/scope_key.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxProcesses = 8;
constexpr uint64_t kWorthALine = 4;   ///< a quarter of the peak
constexpr uint64_t kWorthAHint = 10;  ///< a tenth of the peak
constexpr size_t kBarParts = 3, kBarNameColumns = 28;

/// Finds the sentences, one step after the other.
class Judge {
 public:
  Judge(const Summary& summary, const TextStyle& style) : summary_(summary), style_(style) {}

  Verdict judge() {
    find_device();
    not_seen();
    losses();
    run_limits();
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

  template <class... Args>
  void hint(fmt::format_string<Args...> format, Args&&... args) {
    verdict_.hints.push_back(fmt::format(format, std::forward<Args>(args)...));
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
        (verdict_.device == nullptr ? ScopeKey::host() : ScopeKey::device(verdict_.device->ordinal))
            .text());
  }

  /// Says what no figure has: memory from before an attach, what was killed for want of memory, and
  /// processes that were not recorded.
  void not_seen() {
    for (const Warning& warning : summary_.quality.warnings) {
      if (warning.code == WarningCode::kAttached) say(warning.message, true);
    }
    growth_since();
    if (!summary_.whole_run) return;
    const WholeRun& run = *summary_.whole_run;
    if (std::string text = memory_kill_text(run, style_); !text.empty()) say(std::move(text), true);
    for (std::string& text : missing_from(run, style_)) say(std::move(text), true);
    verdict_.rows = process_rows(run, kMaxProcesses, style_);
  }
  /// Says what has grown since an attach, or within the windows in which the heap was recorded.
  void growth_since() {
    const std::optional<uint64_t> device = metric(summary_.metrics, "device.growth_bytes"),
                                  most = metric(summary_.metrics, "device.growth_peak_bytes"),
                                  heap = metric(summary_.metrics, "host.kind.heap.growth_bytes");
    std::string text;
    if (device && !summary_.devices.empty()) {
      text = size(*device) + " of GPU memory";
      if (most && *most != *device) text += fmt::format(" ({} at most)", size(*most));
    }
    if (heap) text += (text.empty() ? "" : " and ") + size(*heap) + " of heap";
    if (!text.empty()) say("grown while it was recorded: " + text);
  }

  void losses() {
    const Quality& quality = summary_.quality;
    std::string text = losses_text(quality);
    if (quality.exact && quality.log_end == LogEnd::kKilled) text = exit_text(summary_.run.end);
    if (quality.only_heap_inexact && quality.dropped_events == 0) {
      if (quality.warns_of(WarningCode::kLogLimitReached))
        text += " since the log reached its limit";
      text += ": those of GPUs and mappings are";
    } else if (!quality.exact) {
      text += ": the figures are what was seen";
      for (const Warning& warning : quality.warnings) {
        if (warning.code == WarningCode::kLogCouldNotGrow && !warning.about.empty())
          text += ", peaks of GPUs and of the heap at least so much; " + warning.message;
      }
    }
    const bool is_said = quality.exact && quality.log_end == LogEnd::kRunning &&
                         summary_.whole_run && !summary_.whole_run->still_running.empty();
    if (!is_said && (!quality.exact || !quality.log_complete)) say(std::move(text), true);
  }

  /// Says that the card was made to look smaller; this comes before the failures.
  void run_limits() {
    for (const DeviceSummary& device : summary_.devices) {
      if (!device.limit || (&device != verdict_.device && !was_used(device))) continue;
      const CardLimit& limit = *device.limit;
      say(fmt::format("run as on {}: {} has {}",
                      limit.card.empty() ? fmt::format("a card of {}", size(limit.bytes))
                                         : fmt::format("{} of {}", limit.card, size(limit.bytes)),
                      device_text(device), size(limit.real_bytes)));
    }
  }

  const DeviceSummary* device(std::optional<int32_t> ordinal) const {
    const auto found = std::ranges::find(summary_.devices, ordinal, &DeviceSummary::ordinal);
    return found == summary_.devices.end() ? nullptr : &*found;
  }

  bool ended_well() const { return summary_.run.end.in_order(); }

  static bool is_of_memory(const FailureGroup& group) { return found_no_memory(*group.last); }

  /// A program may ask for what this driver or card does not have, only to see whether it is there.
  /// It may also ask the machine for more than it has, and do with less.
  bool was_a_probe(const FailureGroup& group) const {
    return ended_well() && (!is_of_memory(group) || group.last->result == kNoHostMemory);
  }

  /// The groups that were probes, or those that were not.
  std::vector<FailureGroup> failure_groups(bool probes) const {
    std::vector<FailureGroup> groups = fold_failures(summary_);
    std::erase_if(groups, [&](const FailureGroup& group) { return was_a_probe(group) != probes; });
    return groups;
  }

  void failures() {
    const std::vector<FailureGroup> groups = failure_groups(false);
    if (groups.empty()) return;
    // The last one is the failure that the program could not live with.
    const FailureGroup& group = groups.back();
    const OutOfMemory& oom = *group.last;
    const DeviceSummary* where = device(oom.device);
    const bool of_memory = is_of_memory(group);
    std::string text = !ended_well() && of_memory ? "OUT OF MEMORY" : "an allocation failed";
    if (where != nullptr) text += " on " + device_text(*where);
    if (oom.result == kNoHostMemory) text += " on the host";
    if (ended_well()) text += " and the program went on";
    text += oom.for_driver ? ": for the driver's own use by " + oom.api
                           : fmt::format(": {} asked", size(oom.requested_bytes));
    if (oom.result == kNoHostMemory) text += " by " + oom.api;
    if (oom.refused_by) text += " of " + oom.refused_by->name;
    if (oom.driver_free_bytes) text += fmt::format(", {} free", size(oom.driver_free_bytes));
    text += fmt::format(", {} held", size(oom.live_bytes));
    if (!of_memory) text += fmt::format(" ({}: {})", oom.api, oom.result);
    if (group.count > 1) text += fmt::format(", {} times", grouped(group.count));
    if (groups.size() > 1) text += fmt::format("; {} other failures", grouped(groups.size() - 1));
    say(std::move(text), true);
    if (!of_memory) return;
    say("why: " + why_text(oom, style_));
    // The first screen does not say what everybody knows.
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
    const uint64_t count = sum_of(groups, &FailureGroup::count);
    hint("{} allocation{} refused{}, and the program went on ({}: {})", grouped(count),
         count == 1 ? " was" : "s were",
         is_of_memory(groups.back()) ? "" : ", not for want of memory", last.api, last.result);
  }

  /// Why there is no sum of the host's memory.
  std::string what_of_host() const {
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

  /// Whether the host's figures begin at a fork.
  bool is_of_fork() const { return summary_.quality.warns_of(WarningCode::kForkedChild); }

  /// The heap's peak of a child that was counted before it was recorded, bytes: the peak by sites
  /// lacks what came before. 0: it was no such child, or the verdict is about a device.
  uint64_t heap_of_counted_child() const {
    const bool was_counted = summary_.quality.warns_of(WarningCode::kChildCountedAtFirst);
    if (verdict_.device != nullptr || !was_counted) return 0;
    return heap_peak_bytes(summary_.metrics);
  }

  /// Which of several processes a sentence is about; empty: there is one.
  std::string by_whom() const {
    if (!summary_.whole_run || !summary_.whole_run->has_several()) return "";
    const WholeRun& run = *summary_.whole_run;
    return fmt::format(", by {} of {} processes", process_text(run.processes[run.lead]),
                       grouped(run.processes.size()));
  }

  /// What was resident and the process's own, with its error if that is worth words. It is known.
  std::string own_memory_text() const {
    const auto memory = metric(summary_.metrics, "host.memory.peak_bytes");
    const uint64_t seen = metric(summary_.metrics, "host.memory.seen_bytes").value_or(0);
    std::string text = size(memory);
    constexpr uint64_t kWorthWords = 100;
    if (*memory - seen > *memory / kWorthWords)
      text += " " + error_percent(*memory - seen, *memory);
    return text;
  }

  /// Whether that and what was asked for differ by a twentieth and more.
  bool asked_is_not_resident() const {
    constexpr uint64_t kShare = 20, kLeast = 1 << 20;
    const auto memory = metric(summary_.metrics, "host.memory.peak_bytes");
    if (verdict_.device != nullptr || peak_ == nullptr || !memory || is_of_fork()) return false;
    const auto [less, more] = std::minmax(*memory, peak_->bytes);
    return more - less >= std::max(kLeast, more / kShare);
  }

  /// The beginning of the host's sentence if they do: "peak 900 MiB resident, 786 MiB of it kept by
  /// malloc; ". Else empty.
  std::string resident_text() const {
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

  /// The sentence about the peak. `forked`: the peak counts from a fork on.
  std::string peak_text(bool forked) const {
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

  void peaks() {
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
      say(fmt::format("peak {} of managed memory of {}, which may lie there or on the host; no "
                      "other memory of a GPU was handed out",
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

  /// Says when an arena took what is idle in it, and for whom, since idle memory has no holder.
  void arena_growth() {
    if (verdict_.device == nullptr) return;
    const ArenaSummary* arena = idlest_arena(summary_, verdict_.device->ordinal);
    if (arena == nullptr || arena->at_device_peak->idle_bytes() < peak_->bytes / kWorthALine)
      return;
    if (std::string text = arena_growth_text(*arena, style_); !text.empty()) say(std::move(text));
  }

  /// Said if the device's memory is the host's, or if each of the two can use the other's: then no
  /// figure of one side alone says what is left.
  void one_memory() {
    const DeviceSummary* device = verdict_.device;
    if (device == nullptr || !device->memory) return;
    if (device->is_integrated()) {
      const Peak* total = summary_.find_peak("total");
      say(fmt::format(
          "its memory is the host's: {}",
          total == nullptr
              ? "what the host had of it was not measured"
              : fmt::format("with host and managed memory, each byte once, at most {} at {}",
                            size(total->bytes), instant(total->time_ns))));
    } else if (device->memory->host_page_tables) {
      say("it works on the host's memory in place: what malloc, mmap and cuMemAllocManaged give "
          "may lie on the card, which no call tells, and is counted as theirs alone");
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
    if (fits > 0) verdict_.bar.push_back({cut(name, kBarNameColumns, style_), fits});
  }

  /// The frame by which a holder differs from the other holders in the bar: its first frame, if no
  /// other title begins with it.
  std::string telling_frame(size_t number) const {
    const std::vector<Holder>& holders = peak_->holders;
    const std::string& title = holders[number].title;
    const auto shown_end =
        holders.begin() + static_cast<ptrdiff_t>(std::min(kBarParts, holders.size()));
    for (size_t begin = 0;;) {
      const size_t end = std::min(title.find(kArrow, begin), title.size());
      const bool is_shared = std::any_of(holders.begin(), shown_end, [&](const Holder& other) {
        return &other != &holders[number] && other.title.compare(0, end, title, 0, end) == 0 &&
               (other.title.size() == end || other.title.find(kArrow, end) == end);
      });
      if (!is_shared) return title.substr(begin, end - begin);
      if (end == title.size()) return title.substr(0, title.find(kArrow));
      begin = end + kArrow.size();
    }
  }

  void bar() {
    if (verdict_.device == nullptr || peak_ == nullptr || verdict_.device->total_bytes == 0) return;
    uint64_t left = verdict_.device->total_bytes;
    uint64_t rest = peak_->bytes;
    size_t parts = 0;
    const auto part = [&](const std::string& name, uint64_t bytes) {
      if (parts == kBarParts) return;
      ++parts;
      rest -= std::min(rest, bytes);
      add_part(name, static_cast<int64_t>(bytes), left);
    };
    for (const TagShare& tag : peak_->tags) {
      if (&tag != &peak_->tags.back()) part(tag.name, tag.bytes);
    }
    if (peak_->tags.empty()) {
      for (size_t i = 0; i < peak_->holders.size(); ++i)
        part(telling_frame(i), peak_->holders[i].bytes);
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
    int64_t driver = 0, unused = 0, others = 0, host = 0, unknown = 0, unexplained = 0;
    for (const LedgerRow& row : view.rows) {
      if (row.cause == "start")
        others += row.bytes;
      else if (row.cause == "others_and_context")
        unknown += row.bytes;
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
    add_part("other processes and context", unknown, left);
    add_part("reserved, not in use", unused, left);
    if (view.of_process && view.card_used_bytes > view.used_bytes) {
      const uint64_t beside = view.card_used_bytes - view.used_bytes;
      const uint64_t theirs = std::min(beside, view.others_bytes.value_or(beside));
      add_part("other processes", static_cast<int64_t>(theirs), left);
      others = static_cast<int64_t>(beside - theirs);
    }
    add_part(view.of_process ? "the driver's" : "in use before", others, left);
    add_part("host memory", host, left);
    add_part("unexplained", unexplained, left);
  }

  void hints() {
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
    if (temporary >= peak_->bytes / kWorthAHint && temporary > 0)
      hint("the peak was temporary: {} of it freed within {}", size(temporary), duration(longest));
    live_at_end();
    for (const Warning& warning : summary_.quality.warnings) {
      if (warning.code == WarningCode::kMadeCodeUnnamed) verdict_.hints.push_back(warning.message);
    }
    const bool by_site = summary_.grouped_by == "site" || summary_.grouped_by == "function";
    if (by_site && unnamed > listed / 2)
      hint("{} % of it has no names{}", percent(unnamed, listed), what_names(by_module, unnamed));
    resident();
    const auto slack = verdict_.device == nullptr
                           ? std::nullopt
                           : metric(verdict_.device->metrics, "device.ledger.pool_slack_bytes");
    if (slack.value_or(0) > peak_->bytes / kWorthAHint)
      hint("pools keep {} more that nobody uses", size(slack));
  }

  /// Said if the program ended by itself with more than half as much live as at the peak. Idle
  /// memory of a pool is not live: the pool keeps it.
  void live_at_end() {
    const bool is_whole = summary_.quality.exact && summary_.quality.log_complete && ended_well();
    const bool has_several = summary_.whole_run && summary_.whole_run->has_several();
    if (!is_whole || has_several || peak_->error_bytes || peak_->counted) return;
    const DeviceSummary* device = verdict_.device;
    uint64_t live = device == nullptr ? metric(summary_.metrics, "host.live_bytes").value_or(0)
                                      : metric(device->metrics, "device.live_bytes").value_or(0);
    for (const ArenaSummary& arena : summary_.arenas) {
      if (device == nullptr || arena.device != device->ordinal) continue;
      live -=
          std::min(live, arena.reserved_bytes - std::min(arena.reserved_bytes, arena.live_bytes));
    }
    if (live <= peak_->bytes / 2) return;
    hint("still live at the end: {}, {} % as much as at the peak", size(live),
         percent(live, peak_->bytes));
  }

  /// Resident memory by cause, if somebody looked at that, and it is far from what was asked for.
  /// Causes of a fiftieth or less are left out.
  void resident() {
    constexpr uint64_t kWorthWords = 32 << 20;
    const std::vector<ResidentCause> causes = resident_causes(summary_.metrics);
    const Quality& quality = summary_.quality;
    if (verdict_.device != nullptr || causes.empty() || !quality.exact || !quality.log_complete)
      return;
    const uint64_t total = sum_of(causes, &ResidentCause::bytes), peak = peak_->bytes;
    const uint64_t apart = total > peak ? total - peak : peak - total;
    if (apart < kWorthWords && !asked_is_not_resident()) return;
    std::string text;
    for (const ResidentCause& cause : causes) {
      if (cause.bytes > total / 50)
        text += fmt::format("{}{} {}", text.empty() ? "" : " · ", cause.text, size(cause.bytes));
    }
    text = fmt::format("resident at most {}: {}", size(total), text);
    const uint64_t untouched = metric(summary_.metrics, "host.never_touched_bytes").value_or(0);
    if (untouched >= kWorthWords)
      text += fmt::format("; asked for and not resident: {}", size(untouched));
    verdict_.hints.push_back(text);
  }

  /// Not said if it is told as the reason of a failure.
  void growth() {
    if (!summary_.oom.empty() && summary_.oom.back().growth.has_value()) return;
    const DeviceSummary* device = verdict_.device;
    std::string text = steps_text(
        summary_.growth, device == nullptr ? std::nullopt : std::optional(device->ordinal),
        device == nullptr ? 0 : device->total_bytes, peak_->bytes, style_);
    const Peak* const host = summary_.find_peak("host");
    if (text.empty() && device != nullptr && host != nullptr) {
      text = steps_text(summary_.growth, std::nullopt, 0, host->bytes, style_);
      if (!text.empty()) text.replace(0, 2, "the host's memory");  // "it"
      device = nullptr;
    }
    if (text.empty()) return;
    verdict_.hints.push_back(std::move(text));
    const auto most = std::ranges::find_if(summary_.growth, [&](const GrowthSummary& growth) {
      return device == nullptr ? !growth.device : growth.device == device->ordinal;
    });
    const auto moment = [](int64_t ns) {
      return fmt::format("+{:.6f}s", static_cast<double>(ns) / 1e9);
    };
    step("diff --at " + moment(most->begin_ns) + " --at " + moment(most->end_ns), "what grew");
    step("report --at " + moment(most->end_ns), "all that was held in the end");
  }

  /// Which library has no names, and what would give its functions names.
  std::string what_names(const std::map<std::string, uint64_t>& by_module, uint64_t unnamed) const {
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
                       : library.ends_with("(deleted)")
                           ? "has no file any more"
                           : "is not here: gpupeak bundle takes them along where it is");
  }

  void step(std::string_view verb, std::string why) {
    verdict_.next.push_back(
        {fmt::format("gpupeak {} {}", verb, quoted(summary_.log_path)), std::move(why)});
  }

  void steps() {
    const auto is_layer = [](const PhaseSummary& phase) {
      const bool names_layers =
          phase.source == "api" || phase.source == "nvtx" || phase.source == "node";
      return names_layers && !phase.of_library;
    };
    const bool has_layers = std::ranges::any_of(summary_.phases, is_layer);
    if (peak_ != nullptr && peak_->tags.size() > 1)
      step("tags", has_layers ? "by layer" : "by what it is for");
    const bool has_phases = std::ranges::any_of(summary_.phases, [](const PhaseSummary& phase) {
      return phase.source != "auto" && !phase.of_library;
    });
    if (verdict_.next.empty() && has_phases) step("phases", "what each phase kept");
    step("report --html page.html", "a page to look around in");
    verdict_.next.back().page = true;
  }

  void facts() {
    std::string& text = verdict_.facts;
    const auto& run = summary_.whole_run;
    if (run && run->has_several()) {
      // The screen is of the process that held the most: how the run ended is said beside it.
      for (size_t i = 0; i < run->processes.size(); ++i) {
        const std::string ended = exit_text(run->processes[i].end);
        if (run->processes[i].started && i != run->lead && !ended.empty())
          text = "run: " + ended + " · ";
      }
      text += process_text(run->processes[run->lead]) + ": ";
    }
    text += duration(summary_.run.duration_ns);
    const std::string exit = exit_text(summary_.run.end);
    if (!exit.empty()) text += " · " + exit;
    text += fmt::format(" · {} · log {}", events_text(summary_.quality), size(summary_.log_bytes));
    if (is_complete(summary_))
      text += " · ✓ complete";
    else if (summary_.quality.exact && summary_.quality.log_complete)
      text += " · no record lost";
    if (const uint64_t bytes = unexplained_resident_bytes(summary_); bytes > 0)
      text += fmt::format(" · {} resident without a known cause", size(bytes));
    if (summary_.quality.heap_sample_bytes > 0)
      text += fmt::format(
          " · small heap blocks{}: a sample of one in {}",
          summary_.quality.others_blocks_alone ? " of CUDA's calls and as libraries start" : "",
          size(summary_.quality.heap_sample_bytes));
    std::set<WarningCode> said;
    for (const Warning& warning : summary_.quality.warnings) {
      const bool is_in_facts = warning.code == WarningCode::kEndedBySignal;
      if (is_in_facts || !said.insert(warning.code).second) continue;
      const bool is_first = said.size() == 1;
      verdict_.warnings += (is_first ? "" : ", ") + phrase_of(warning.code);
      verdict_.warning_codes += (is_first ? "" : " ") + code_text(warning.code);
    }
  }

  const Summary& summary_;
  const TextStyle& style_;
  const Peak* peak_ = nullptr;
  size_t used_devices_ = 0;
  Verdict verdict_;
};

}  // namespace

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
    const size_t later = parts.size() - 1 - i;  // each of the later parts needs a place
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

void add_bar(const Verdict& verdict, std::string_view margin, TextLines& lines) {
  if (verdict.bar.empty()) return;
  const std::string bar = std::string(margin) + bar_text(verdict.bar, kBarColumns);
  const std::string legend = bar_legend(verdict.bar, lines.style());
  if (display_width(bar) + 2 + display_width(legend) <= lines.width())
    return lines.add(bar + "  " + legend);
  lines.add(bar);
  for (std::string& one : wrapped(std::string(margin) + legend, lines.width(), 2, lines.style()))
    lines.add(std::move(one));
}

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
    if (oom.told_by_arena) continue;
    const auto alike = [&](const FailureGroup& group) {
      const OutOfMemory& other = *group.last;
      const bool same_arena = oom.refused_by.has_value() == other.refused_by.has_value();
      return same_arena && oom.device == other.device &&
             oom.requested_bytes == other.requested_bytes && oom.result == other.result &&
             oom.phase == other.phase && oom.title == other.title;
    };
    const auto known = std::ranges::find_if(groups, alike);
    uint64_t count = 1;
    if (known != groups.end()) {
      count += known->count;
      groups.erase(known);  // the order is that of the last failures
    }
    groups.push_back({&oom, count});
  }
  // The last group is told first: failures for want of memory come before senseless requests.
  std::stable_partition(groups.begin(), groups.end(),
                        [](const FailureGroup& group) { return !found_no_memory(*group.last); });
  return groups;
}

Verdict verdict_of(const Summary& summary, const TextStyle& style) {
  return Judge(summary, style).judge();
}

}  // namespace gpupeak::collector
