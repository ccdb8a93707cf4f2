#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_set>

#include "collector/analyze/summary_parts.h"
#include "collector/summary/run_text.h"
#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kHeapSlackBytesPerThread = 64 << 10;

/// "1 event", "2 events".
std::string counted(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string size_and_bytes(uint64_t bytes) {
  return fmt::format("{} ({} bytes)", size_text(bytes), bytes);
}

class QualityReport {
 public:
  QualityReport(const Replay& replay, const Coverage& coverage)
      : replay_(replay), coverage_(coverage), page_(replay.log().counters()) {}

  Quality make(const std::vector<Warning>& symbol_warnings) {
    count();
    losses();
    coverage();
    stacks();
    contradictions();
    other_programs();
    if (!replay_.log().symbols_problem().empty())
      warn(WarningCode::kSymbolsNotUsable, replay_.log().symbols_problem());
    quality_.only_heap_inexact = !quality_.exact && !others_inexact_;
    quality_.warnings.insert(quality_.warnings.end(), symbol_warnings.begin(),
                             symbol_warnings.end());
    return std::move(quality_);
  }

 private:
  void warn(WarningCode code, std::string message) {
    const Inexact inexact = inexact_by(code);
    quality_.exact = quality_.exact && inexact == Inexact::kNone;
    others_inexact_ = others_inexact_ || inexact >= Inexact::kAll;
    quality_.events_lost = quality_.events_lost || inexact == Inexact::kLost;
    quality_.warnings.push_back({code, std::move(message), ""});
  }
  template <class Arg, class... Args>
  void warn(WarningCode code, fmt::format_string<Arg, Args...> format, Arg&& arg, Args&&... args) {
    warn(code, fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }
  /// For trouble that was counted: warns if there was any.
  void warn_of(uint64_t count, WarningCode code, std::string_view what, std::string_view rest) {
    if (count > 0) warn(code, "{} {}", counted(count, what), rest);
  }
  bool has(uint64_t bit) const { return (page_.quality & bit) != 0; }
  /// Calls of the heap; more than there are records if a sample is recorded, or none.
  uint64_t counted_calls() const { return page_.heap_alloc_count + page_.heap_free_count; }

  void count() {
    const StreamCounts& stream = replay_.stream_counts();
    quality_.events = stream.events;
    quality_.device_events = stream.device_events;
    quality_.host_events = stream.mapping_events + std::max(stream.heap_events, counted_calls());
    quality_.slow_clock = has(GPUPEAK_Q_NO_TSC);
    quality_.dropped_events = page_.dropped_events + stream.missing_device_events;
    quality_.truncated_stacks = page_.truncated_stacks;
    quality_.unmatched_frees = replay_.troubles().unmatched_device_frees;
    quality_.unknown_heap_frees = replay_.troubles().unknown_heap_frees;
    quality_.repairs = replay_.troubles().repairs;
  }

  void losses() {
    const LogDamage& damage = replay_.log().damage();
    const StreamCounts& stream = replay_.stream_counts();
    warn_of(page_.dropped_events, WarningCode::kEventsDropped, "event", "could not be recorded");
    if (page_.ended == 0) end_without_handlers();
    const uint64_t corrupt = damage.corrupt_chunks + stream.corrupt_chunks;
    if (corrupt + damage.cut_chunks + damage.missing_chunks > 0) {
      quality_.log_complete = false;
      warn(WarningCode::kLogIsDamaged, "the log is damaged: {} corrupt, {} cut off, {} missing",
           counted(corrupt, "chunk"), damage.cut_chunks, damage.missing_chunks);
    }
    std::string_view is_whole;  // the last word counts
    for (const auto& [key, value] : replay_.log().definitions().facts()) {
      if (key == "attach.is_whole") is_whole = value;
    }
    if (is_whole == "no") {
      warn(WarningCode::kLogIsDamaged,
           "the log is damaged: the attach that began it did not finish, so only an unknown part "
           "of what was allocated was seen");
    }
    warn_of(stream.missing_device_events, WarningCode::kDeviceEventsMissing, "device event",
            "missing from the log");
    warn_of(replay_.troubles().malformed_events, WarningCode::kEventsMadeNoSense, "event",
            "made no sense and were left out");
    warn_of(stream.unknown_records, WarningCode::kUnknownRecords, "record",
            "of kinds that this gpupeak does not know were skipped");
    if (has(GPUPEAK_Q_DISK_FULL)) {
      const std::string when = gaps();
      warn(WarningCode::kLogCouldNotGrow,
           when + (when.empty() ? "" : " ") +
               "the log could not grow (disk full, quota, file size limit, too little memory or "
               "too many mappings, or a sandbox forbids it)");
      quality_.warnings.back().about = when;
    }
    if (has(GPUPEAK_Q_DEVICE_TABLE_FULL))
      warn(WarningCode::kDeviceTableFull,
           "the table of live device memory was full: device events were lost");
    warn_of(page_.reentrant_calls, WarningCode::kAllocatorCallsNotSeen, "allocator call",
            "not seen: in handlers inside a hook, under strict seccomp or dispatch");
    warn_of(page_.early_calls, WarningCode::kCallsBeforeLog, "allocator call",
            "before the log was open not seen");
  }

  /// The times in which nothing could be recorded, which the library noted afterwards.
  std::string gaps() const {
    std::string text;
    size_t count = 0;
    for (const auto& [key, value] : replay_.log().definitions().facts()) {
      unsigned long long begin = 0, end = 0;
      if (key != "log.gap" || sscanf(value.c_str(), "%llu %llu", &begin, &end) != 2) continue;
      constexpr size_t kMostShown = 3;
      const uint64_t start = replay_.log().header().start_monotonic_ns;
      if (begin < start || end < begin || ++count > kMostShown) continue;
      text += fmt::format("{}+{:.3f} s to +{:.3f} s", count == 1 ? "from " : ", ",
                          static_cast<double>(begin - start) / 1e9,
                          static_cast<double>(end - start) / 1e9);
    }
    if (count > 3) text += fmt::format(" and {} times more", count - 3);
    return text;
  }

  /// For a process that ended without its exit handlers: `run` saw how. If it ended with an exit
  /// code, by a bare system call, each event is in the log.
  void end_without_handlers() {
    if (page_.exit_kind == GPUPEAK_EXIT_CODE) return;
    quality_.log_complete = false;
    if (page_.exit_kind == GPUPEAK_EXIT_SIGNAL) {
      quality_.log_end = LogEnd::kKilled;
      warn(WarningCode::kEndedBySignal, "the process was ended by {}: figures hold up to then",
           signal_name(page_.exit_code));
      return;
    }
    const bool runs = state_of(replay_.log().header(), page_) == LogState::kRunning;
    quality_.log_end = runs ? LogEnd::kRunning : LogEnd::kUnknown;
    if (runs)
      warn(WarningCode::kStillRunning, "the program is still running: figures are those of now");
    else
      warn(WarningCode::kLogHasNoEnd,
           "the log has no end (killed, or left by exec; recorded without `gpupeak run` nobody saw "
           "how): figures hold up to its last event");
  }

  /// Tells of the programs that the process ran before this one or after it, by exec.
  void other_programs() {
    const std::vector<LogPart>& parts = replay_.log().parts();
    const uint64_t own_start = replay_.log().header().start_monotonic_ns;
    for (size_t i = 0; i < parts.size(); ++i) {
      const LogPart& part = parts[i];
      const bool before = part.start_monotonic_ns < own_start;
      uint64_t end = before ? own_start : 0;
      for (const LogPart& other : parts) {
        if (other.start_monotonic_ns > part.start_monotonic_ns)
          end = std::min(end, other.start_monotonic_ns);
      }
      const std::string lasted =
          before ? fmt::format(" for {:.1f} s",
                               static_cast<double>(end - part.start_monotonic_ns) / 1e9)
                 : "";
      warn(WarningCode::kRanOtherPrograms,
           "{} this program the process ran {}{}, which used {}: add #{} to the log's name to read "
           "that part of it",
           before ? "before" : "after", replay_.log().definitions().shown(part.program), lasted,
           part.device_events > 0 ? "the GPU" : "no GPU", i + 1);
    }
  }

  /// Tells of each window what was there before; if there are many, of the first ones.
  void windows() {
    constexpr size_t kMost = 3;
    const std::vector<Window>& windows = replay_.windows();
    const ClockMap& clock = replay_.log().clock();
    const auto at = [&](uint64_t ticks) { return static_cast<double>(clock.to_ns(ticks)) / 1e9; };
    std::string text;
    for (size_t i = 0; i < std::min(windows.size(), kMost); ++i) {
      const Window& window = windows[i];
      text += fmt::format(
          "{} +{:.2f} s {}: {} were held before", i == 0 ? "" : ";", at(window.begin_ticks),
          window.has_ended ? fmt::format("to +{:.2f} s", at(window.end_ticks)) : std::string("on"),
          size_and_bytes(window.before_bytes));
      if (window.has_ended && window.mode == GPUPEAK_HOST_FULL)
        text += fmt::format(", {} of it freed meanwhile", size_and_bytes(window.freed_bytes));
    }
    if (windows.size() > kMost) text += fmt::format("; {} more", windows.size() - kMost);
    warn(WarningCode::kHeapInWindows,
         "the heap was recorded in {} (phase recording): holders and figures of the host are of "
         "what was allocated there, by whom the rest was is not known; the heap's peak is from "
         "counters.{}",
         windows.size() == 1 ? "one window" : fmt::format("{} windows", windows.size()), text);
  }

  /// "14.2 GiB of GPU 0": what the process had before the attach, as NVML said.
  std::string held_before() const {
    std::string text;
    for (const auto& [key, value] : replay_.log().definitions().facts()) {
      unsigned index = 0;
      unsigned long long bytes = 0;
      if (key == "attach.held" &&
          sscanf(std::string(value).c_str(), "%u %llu", &index, &bytes) == 2) {
        text +=
            fmt::format("{}{} of GPU {}", text.empty() ? "" : ", ", size_and_bytes(bytes), index);
      }
    }
    return text;
  }

  /// Comes first in the warning: no figure of a GPU then has all that the program took.
  std::string passed_by_text() const {
    const std::optional<PassedBy> passed = passed_by(replay_);
    if (!passed) return "";
    return fmt::format(
        "; NOT ALL of GPU memory: the driver says that {} {} are in use than what was seen "
        "accounts for, by calls that pass by (functions of the driver that the program keeps on "
        "its heap), by the driver itself{}",
        size_and_bytes(static_cast<uint64_t>(std::llabs(passed->bytes))),
        passed->bytes > 0 ? "more" : "less", passed->knows_others ? "" : ", or by other processes");
  }

  /// What was there before the attach is not seen; only what of it goes is counted.
  void attached() {
    const std::string held = held_before();
    std::string text = "attached at +0: figures are of what was allocated since then";
    if (replay_.heap().sample_bytes() > 0) {
      text += ", the heap's by a sample";
    } else if (quality_.exact && !passed_by(replay_)) {
      text += ", and exact";
    }
    text += passed_by_text();
    text += held.empty()
                ? "; what was held before is not in them, and not known"
                : "; not in them: " + held + " that were held before, by whom is not known";
    const std::string_view resident = replay_.log().definitions().fact("attach.resident");
    if (!resident.empty()) {
      text += fmt::format("; {} of the process were resident then",
                          size_and_bytes(strtoull(std::string(resident).c_str(), nullptr, 10)));
    }
    if (const uint64_t frees = replay_.troubles().unmatched_device_frees; frees > 0)
      text += fmt::format("; {} went to device memory from before", counted(frees, "free"));
    uint64_t freed = 0;
    for (const Window& window : replay_.windows())
      freed += window.has_ended ? window.freed_bytes : 0;
    if (freed > 0)
      text += fmt::format("; {} of the heap from before were freed", size_and_bytes(freed));
    for (const auto& [key, value] : replay_.log().definitions().facts()) {
      if (key == "attach.unseen") text += fmt::format("; not seen: {}", value);
    }
    warn(WarningCode::kAttached, text);
  }

  /// A counted child is no loss: what was counted is exact.
  void counted_child() {
    std::string how = "without call sites";
    if (!replay_.windows().empty()) {
      const Window& first = replay_.windows().front();
      how = fmt::format("and recorded from +{:.2f} s on, when {} were held that have no call site",
                        static_cast<double>(replay_.log().clock().to_ns(first.begin_ticks)) / 1e9,
                        size_and_bytes(first.before_bytes));
    }
    warn(WarningCode::kChildCountedAtFirst,
         "a child process: its heap was counted from its start, usable bytes within {} KiB a "
         "thread, {} (--children all: recorded from its start)",
         kHeapSlackBytesPerThread >> 10, how);
  }

  void coverage() {
    const gpupeak_file_header& header = replay_.log().header();
    quality_.heap_not_read = replay_.log().left_heap_out();
    if (is_attached()) {
      attached();
    } else if (quality_.heap_not_read) {
      // The heap was only not read: there is nothing to say of it.
    } else if ((header.flags & GPUPEAK_FLAG_COUNTED) != 0) {
      counted_child();
    } else if (header.host_mode == GPUPEAK_HOST_OFF) {
      warn(WarningCode::kHostNotMeasured, "host memory was not measured (GPUPEAK_HOST=off)");
    } else if (coverage_.windows) {
      windows();
    } else if (header.host_mode == GPUPEAK_HOST_COUNTERS) {
      warn(WarningCode::kHeapIsCounted,
           "heap peak from counters (GPUPEAK_HOST=counters): usable bytes, within {} KiB a thread, "
           "without call sites",
           kHeapSlackBytesPerThread >> 10);
    } else if (has(GPUPEAK_Q_LOG_MAX)) {
      const std::optional<uint64_t> since = replay_.heap().sampled_since();
      const ClockMap& clock = replay_.log().clock();
      warn(WarningCode::kLogLimitReached,
           "the log reached its limit (GPUPEAK_LOG_MAX): {} heap figures are estimates from a "
           "sample of one block in {} bytes; the number of allocations, and the peak of usable "
           "bytes within 64 KiB a thread, stay exact",
           since ? fmt::format("from +{:.2f} s on", static_cast<double>(clock.to_ns(*since)) / 1e9)
                 : "at the end",
           replay_.heap().sample_bytes());
    }
    if (coverage_.sampled) quality_.heap_sample_bytes = replay_.heap().sample_bytes();
    quality_.others_blocks_alone = has(GPUPEAK_Q_OTHERS_SAMPLED) && !has(GPUPEAK_Q_HEAP_SAMPLED);
    const bool late = (header.flags & GPUPEAK_FLAG_LATE_START) != 0;
    if ((header.flags & GPUPEAK_FLAG_FORKED) != 0 && !late) {
      warn(WarningCode::kForkedChild,
           "a forked child: its host memory is what it has allocated since the fork; what it has "
           "from its parent is not in it");
    } else if ((header.flags & GPUPEAK_FLAG_FORKED) != 0) {
      warn(WarningCode::kForkedChild,
           "recording began in a forked child: host memory inherited from its parent is unseen, "
           "host sums are not given");
    } else if (late) {
      warn(WarningCode::kBeganLate,
           "recording began after the process had run a while: earlier host memory is unseen, host "
           "sums are not given");
    }
    if (has(GPUPEAK_Q_FOREIGN_MALLOC)) {
      warn(WarningCode::kProgramsOwnMalloc,
           "the program, or a library preloaded before gpupeak's, brings its own malloc: its heap "
           "is unseen");
      quality_.hooks_missing.emplace_back("malloc");
    }
    if (has(GPUPEAK_Q_SECOND_MALLOC)) {
      warn(WarningCode::kSecondAllocator,
           "the program uses an allocator beside malloc (tcmalloc, mimalloc, jemalloc or oneTBB's) "
           "of which some calls could not be hooked: what it hands out is unseen");
      quality_.hooks_missing.emplace_back("allocator");
    }
    missing_hooks();
    if (has(GPUPEAK_Q_NO_DRIVER))
      warn(WarningCode::kNoDriver, "CUDA was asked for, but libcuda.so.1 did not load");
    if (has(GPUPEAK_Q_BAD_ENVIRONMENT))
      warn(WarningCode::kVariableNotUnderstood, "a GPUPEAK_* variable was not understood");
  }

  /// Functions of a newer driver that we do not know. The program cannot have called one that it
  /// did not ask for.
  void missing_hooks() {
    std::string asked_for;
    std::unordered_set<std::string> known;
    for (const auto& [key, value] : replay_.log().definitions().facts()) {
      if (!key.starts_with("hook_missing.")) continue;
      const std::string name = replay_.log().definitions().shown(value);
      if (known.insert(name).second) quality_.hooks_missing.push_back(name);
      if (key == "hook_missing.asked_for") asked_for += (asked_for.empty() ? "" : ", ") + name;
    }
    if (!asked_for.empty())
      warn(WarningCode::kDriverCallNotHooked,
           "the program asked the driver for " + asked_for +
               ": not hooked, so that memory it hands out is not seen");
  }

  void stacks() {
    if (has(GPUPEAK_Q_NO_UNWINDER)) {
      warn(WarningCode::kNoUnwinder,
           "some call sites are one frame deep: unwind rules did not lead on, and no other "
           "unwinder was loaded");
    } else if (has(GPUPEAK_Q_NO_LIBUNWIND)) {
      warn(WarningCode::kNoLibunwind, "libunwind did not load: libgcc's unwinder was used");
    }
    python();
    if (has(GPUPEAK_Q_TRIE_FULL))
      warn(WarningCode::kTooManyStacks, "too many different stacks: some have no call site");
    warn_of(page_.truncated_stacks, WarningCode::kStacksCut, "stack",
            fmt::format("deeper than {} frames: the outer frames are missing", GPUPEAK_MAX_FRAMES));
    if (replay_.log().damage().definitions_lost || replay_.troubles().undefined_stacks > 0)
      warn(WarningCode::kUndefinedStacks, counted(replay_.troubles().undefined_stacks, "event") +
                                              " with a call site that the log does not define");
  }

  /// Of these nothing tells their frames from outside.
  void other_pythons() {
    for (const Module& module : replay_.log().definitions().modules()) {
      const std::string_view name = file_name(module.path);
      const char* python = name.starts_with("pypy") || name.starts_with("libpypy") ? "PyPy"
                           : name == "libpythonvm.so"                              ? "GraalPy"
                           : name.starts_with("micropython")                       ? "MicroPython"
                                                                                   : nullptr;
      if (python == nullptr) continue;
      return warn(WarningCode::kNoPythonFrames,
                  "call sites have no Python frames: {} does not say what it runs; with CPython "
                  "(python3) rows have the lines that allocate",
                  python);
    }
  }

  /// Interpreters whose functions nothing tells, by the name of the program that ran.
  void other_interpreters() {
    const std::string_view name = file_name(replay_.log().definitions().fact("exe"));
    for (const std::string_view one :
         {"perl", "ruby", "lua", "luajit", "php", "R", "tclsh", "guile", "sbcl", "beam.smp"}) {
      if (!name.starts_with(one) || (name.size() > one.size() && isalpha(name[one.size()]) != 0))
        continue;
      warn(WarningCode::kMadeCodeUnnamed,
           "rows have functions of {} itself, not of what it runs, which it tells nobody", one);
    }
  }

  void python() {
    other_pythons();
    other_interpreters();
    if (has(GPUPEAK_Q_PYTHON_OFF)) {
      const Definitions& definitions = replay_.log().definitions();
      const std::string version = escape(definitions.fact("python"));  // gives nothing away
      const std::string trouble = definitions.shown_fact("python.off");
      warn(WarningCode::kNoPythonFrames, "call sites have no Python frames: {}{}", trouble,
           version.empty() ? "" : " (Python " + version + ")");
    }
    warn_of(page_.unread_python_stacks, WarningCode::kUnreadPythonStacks, "allocation",
            "without its Python frames: they could not be read (as while the interpreter ends)");
  }

  bool is_attached() const { return is_of_attached(replay_.log().header()); }

  void contradictions() {
    const ReplayTroubles& troubles = replay_.troubles();
    if (!is_attached())
      warn_of(troubles.unmatched_device_frees, WarningCode::kUnknownDeviceFrees, "device free",
              "of memory never seen allocated");
    warn_of(troubles.repairs, WarningCode::kContradictions, "event",
            "contradicted the ones before; the later one was believed");
    // An attached program first ends phases that it began before.
    if (!is_attached())
      warn_of(replay_.phases().unbalanced_pops(), WarningCode::kUnbalancedPhases, "phase end",
              "without a beginning ignored");
    warn_of(replay_.phases().left_out(), WarningCode::kTooManyPhases, "phase",
            "more than are told apart: what happened in them counts for those around them");
    warn_of(replay_.arenas().unmatched(), WarningCode::kUnmatchedArenaEvents, "arena event",
            "that match nothing ignored: frees of what was never handed out, or arenas that were "
            "never created");
    warn_of_arenas();
    warn_of_limits();
    for (const std::string& problem : replay_.nodes().problems())
      warn(WarningCode::kNodesWithoutPhase, problem);
    compare_with_counters();
    if (page_.ended != 0 && page_.exit_kind == GPUPEAK_EXIT_SIGNAL)
      warn(WarningCode::kEndedBySignal, "the process was ended by " + signal_name(page_.exit_code));
  }

  void warn_of_limits() {
    const Definitions& definitions = replay_.log().definitions();
    for (const DeviceInfo& device : definitions.devices()) {
      const std::optional<RunLimit> limit = run_limit(definitions, device.ordinal);
      if (!limit || limit->holds) continue;
      const bool integrated = (device.memory & GPUPEAK_MEMORY_INTEGRATED) != 0;
      warn(WarningCode::kLimitDidNotHold, "the limit of {} did not hold for GPU {}, which {}",
           size_text(limit->bytes, {}), device.ordinal,
           integrated ? "has the host's memory" : "has " + size_text(limit->real_bytes, {}));
    }
  }

  /// Compares an allocator's own totals with what was seen of it.
  void warn_of_arenas() {
    const Definitions& definitions = replay_.log().definitions();
    if (const std::string why = definitions.shown_fact("pools.off"); !why.empty())
      warn(WarningCode::kArenaNotSeen,
           "what a framework's allocator hands out is not seen: " + why);
    for (const ArenaTable::Arena& arena : replay_.arenas().arenas()) {
      const std::string name = replay_.log().definitions().shown(replay_.name(arena.name));
      if (arena.contradictions > 0) {
        warn(WarningCode::kArenaTotalsDiffer,
             "{}'s own totals differ from what was seen of it {} of {} times", name,
             arena.contradictions, arena.told);
      }
      if (arena.lost_bytes > 0) {
        warn(WarningCode::kFreedUnderArena,
             "memory was freed under {} bytes that {} had handed out", arena.lost_bytes, name);
      }
    }
  }

  /// The device counters are exact: a replay of a whole log must come to the same peaks.
  void compare_with_counters() {
    if (others_inexact_ || page_.ended == 0) return;
    const uint32_t devices = std::min<uint32_t>(page_.device_count, GPUPEAK_LOG_MAX_DEVICES);
    for (uint32_t i = 0; i < devices; ++i) {
      const uint64_t replayed = replay_.sum(ScopeKey::device(static_cast<int32_t>(i)).text()).peak;
      const uint64_t counted_peak = page_.device[i].total.peak;
      if (replayed == counted_peak) continue;
      warn(WarningCode::kPeaksDisagree,
           "GPU {}: the events give a peak of {} bytes, the counters {}", i, replayed,
           counted_peak);
    }
  }

  const Replay& replay_;
  const Coverage& coverage_;
  const gpupeak_counters_page& page_;
  Quality quality_;
  bool others_inexact_ = false;  // figures in which the heap is no part
};

}  // namespace

RunEnd run_end(const gpupeak_counters_page& page) {
  switch (page.exit_kind) {
    case GPUPEAK_EXIT_CODE:
      return {ExitKind::kExit, page.exit_code};
    case GPUPEAK_EXIT_SIGNAL:
      return {ExitKind::kSignal, page.exit_code};
    default:
      return {};
  }
}

Quality assess_quality(const Replay& replay, const Coverage& coverage,
                       const std::vector<Warning>& symbol_warnings) {
  return QualityReport(replay, coverage).make(symbol_warnings);
}

}  // namespace gpupeak::collector
