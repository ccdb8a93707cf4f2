// Replays the events of a log in one pass, with memory O(live blocks + sites). It gives each event
// to the part that it concerns, and gives access to all parts:
//
//                    ┌ HeapReplay      blocks, reallocs, samples ┐
//   event ─ Replay ──┼ MappingTable    mmap and its like         ├─ LiveMemory ─ PeakFinder
//                    ├ DeviceReplay    the driver's blocks       ┘       └ ReplayObserver
//                    ├ AllocationContext   threads, phases, rules, tags
//                    ├ GrowthTable     what sites held at the ends of repeated phases
//                    └ ArenaTable      what sub-allocators have in use and idle of heap and device
//
// analyze() runs one and builds the summary from it. Views and exports read it, or observe it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/event_stream.h"
#include "collector/log/log_reader.h"
#include "collector/replay/allocation_context.h"
#include "collector/replay/arena_table.h"
#include "collector/replay/device_replay.h"
#include "collector/replay/growth_table.h"
#include "collector/replay/heap_replay.h"
#include "collector/replay/live_memory.h"
#include "collector/replay/mapping_table.h"
#include "collector/replay/replay_observer.h"
#include "collector/replay/troubles.h"

namespace gpupeak::collector {

// By how much a program has grown since it was attached to, or within the windows in which its heap
// was recorded. Memory from before is no part of it. But memory from before that is freed counts as
// less: replacing a block by another is no growth.

/// What an attached program has taken of devices since the log began.
class DeviceGrowth {
 public:
  /// `live`: bytes that were allocated since then and are live.
  void set(uint64_t live) {
    live_ = live;
    peak_ = std::max(peak_, bytes());
  }
  void given_back(uint64_t bytes) { given_back_ += bytes; }
  void given_back_unknown() { is_known_ = false; }

  /// False: something from before was freed, and its size is not known.
  bool is_known() const { return is_known_; }
  uint64_t given_back() const { return given_back_; }
  uint64_t bytes() const { return live_ - std::min(live_, given_back_); }
  uint64_t peak() const { return peak_; }

 private:
  uint64_t live_ = 0, given_back_ = 0, peak_ = 0;
  bool is_known_ = true;
};

/// An instant that the program, or somebody outside, marked.
struct Mark {
  uint64_t ticks = 0;
  uint32_t tid = 0;
  uint32_t name = 0;      ///< Replay::name()
  uint32_t category = 0;  ///< string of the log; 0: none
  uint64_t instance = 0;
  uint8_t source = 0;
  uint64_t device_bytes = 0, host_bytes = 0;  ///< live then
};

/// A time of the run in which the heap was recorded.
struct Window {
  uint64_t begin_ticks = 0, end_ticks = 0;
  bool has_ended = false;
  uint64_t before_bytes = 0;  ///< usable bytes that were live when it began and are not in the log
  /// How much of these was freed in it. Not known for a sample: they may be blocks that it left
  /// out.
  uint64_t freed_bytes = 0;
  /// Usable bytes; in an attached program, since the attach.
  int64_t heap_at_begin = 0, heap_at_end = 0;
  uint64_t device_at_begin = 0, device_at_end = 0;  ///< what all devices held
  uint64_t mode = 0;                                ///< enum gpupeak_host_mode
};

class Replay {
 public:
  static constexpr size_t kMaxMarks = 10'000, kMaxWindows = 10'000;

  explicit Replay(const LogReader& log, ReplayObserver* observer = nullptr);
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  /// Adds the phases of rules. Call it before run(). `phases` must outlive this.
  void use_phases(const StackPhases& phases) { allocation_context_.use_rules(phases); }
  void run(const Progress& progress);

  const LogReader& log() const { return log_; }
  const PeakFinder& peaks() const { return live_.peaks(); }
  const SiteTable& sites() const { return live_.sites(); }
  /// The sum with this name; an empty one if nothing was ever counted into it.
  const PeakFinder::Scope& sum(const std::string& scope) const { return live_.sum(scope); }
  const PhaseTree& phases() const { return allocation_context_.phases(); }
  const NodePhases& nodes() const { return allocation_context_.nodes(); }
  const HeapReplay& heap() const { return heap_; }
  const DeviceReplay& device() const { return device_; }
  const ArenaTable& arenas() const { return arenas_; }
  const GrowthTable& growth() const { return growth_; }
  /// The first kMaxMarks.
  const std::vector<Mark>& marks() const { return marks_; }
  uint64_t mark_count() const { return mark_count_; }
  /// The first kMaxWindows.
  const std::vector<Window>& windows() const { return windows_; }
  /// For an attached program.
  const DeviceGrowth& device_growth() const { return device_growth_; }
  const StreamCounts& stream_counts() const { return stream_counts_; }
  const ReplayTroubles& troubles() const { return troubles_; }
  const Gauge& rss() const { return rss_; }
  /// The process's proportional share of resident memory, where it was read.
  const Gauge& pss() const { return pss_; }
  /// What was resident when that was most, and the bytes that the program's anonymous mappings had
  /// then. rss is 0: nobody looked.
  struct Resident {
    ResidentEvent event{};
    uint64_t mapped_bytes = 0, resting_bytes = 0;
  };
  const Resident& resident() const { return resident_; }
  /// What was resident and the process's own: the most at any look, and at the look at which most
  /// was resident. rss is 0: nobody looked.
  struct OwnMemory {
    uint64_t most = 0, rss = 0, own = 0;
  };
  const OwnMemory& own_memory() const { return own_memory_; }
  /// Set if the log has uses of device memory and the process came to its end.
  const std::optional<UsesEndEvent>& uses_end() const { return uses_end_; }
  const Gauge& brk_growth() const { return brk_growth_; }
  const std::map<uint32_t, std::string_view>& thread_names() const { return thread_names_; }
  /// The text of a phase's name or of a tag.
  std::string_view name(uint32_t id) const { return allocation_context_.names().text(id); }
  uint64_t last_ticks() const { return last_ticks_; }

  // For observers: as it is after the latest event.

  /// A scope's sum; 0 if the scope is not known yet. All replays of one log number scopes alike.
  uint64_t current(ScopeId scope) const {
    return scope < peaks().scope_count() ? peaks().scope(scope).current : 0;
  }
  /// The thread whose phases a track has; 0: the process.
  uint32_t thread_of(PhaseTrack track) const {
    return track.of_process ? 0 : allocation_context_.thread_of(track.slot);
  }

 private:
  static constexpr size_t kAhead = 64;

  template <class After>
  void take_all(std::span<const Event> events, std::span<const uint32_t> notes, const After& after);
  void take_next(const Event& event, uint32_t note) {
    allocation_context_.pass_nodes(event.ticks);
    if (allocation_context_.has_rules() && allocation_context_.turns_to(event.slot)) [[unlikely]]
      return take_of_other_slot(event, note);
    take(event, note);
  }
  void take(const Event& event, uint32_t note) {
    last_ticks_ = event.ticks;
    if (allocation_context_.changes_thread(event)) [[unlikely]]
      allocation_context_.change_thread(event);
    if (is_heap_event(event.tag)) [[likely]]
      return heap_.take(event, std::bit_cast<Match>(note));
    take_extended(event);
  }
  [[gnu::noinline]] void take_of_other_slot(const Event& event, uint32_t note);
  [[gnu::noinline]] void take_extended(const Event& event);
  void finish(const StreamCounts& counts);
  GroupId mapping_group(const Event& event, uint8_t kind, uint32_t stack);

  void note_own(uint64_t rss, uint64_t own);

  const LogReader& log_;
  ReplayObserver* const observer_;
  ReplayTroubles troubles_;
  LiveMemory live_;
  AllocationContext allocation_context_;
  ArenaTable arenas_;
  GrowthTable growth_;
  HeapReplay heap_;
  DeviceReplay device_;
  MappingTable mappings_;
  MappingTable::Changes changes_;  // of the current event
  std::vector<Mark> marks_;
  uint64_t mark_count_ = 0;
  std::vector<Window> windows_;
  DeviceGrowth device_growth_;
  std::map<uint32_t, std::string_view> thread_names_;
  Gauge rss_, pss_, brk_growth_;
  Resident resident_;
  OwnMemory own_memory_;
  std::optional<UsesEndEvent> uses_end_;
  uint64_t last_ticks_ = 0;
  StreamCounts stream_counts_;
};

/// A phase's name, with the name of its NVTX domain if it is not the default one.
std::string phase_text(const Replay& replay, const PhaseLabel& label);

}  // namespace gpupeak::collector
