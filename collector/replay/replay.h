// Replays the events of a log: keeps what is live, feeds PeakFinder and PhaseTree, collects failed
// allocations and gauges. One pass, memory O(live blocks + sites). analyze() runs one and builds
// the summary from it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/event_stream.h"
#include "collector/log/log_reader.h"
#include "collector/replay/arena_table.h"
#include "collector/replay/block_map.h"
#include "collector/replay/gauge.h"
#include "collector/replay/ledger.h"
#include "collector/replay/mapping_table.h"
#include "collector/replay/peak_finder.h"
#include "collector/replay/phase_tree.h"
#include "collector/replay/pool_reserves.h"
#include "collector/replay/site_table.h"
#include "collector/rules/stack_rules.h"

namespace gpupeak::collector {

/// What did not add up while replaying; the quality warnings are made of it.
struct ReplayTroubles {
  uint64_t unmatched_device_frees = 0;  ///< the writer said so: the pointer was never seen
  uint64_t unknown_heap_frees = 0;      ///< blocks from before the log's start
  uint64_t repairs = 0;           ///< events that contradict each other, the likelier one believed
  uint64_t malformed_events = 0;  ///< left out
  uint64_t undefined_stacks = 0;  ///< events whose stack the log does not define
};

/// A failed allocation, and who held the device's memory at that instant.
struct FailedAllocation {
  uint64_t ticks = 0;
  DeviceFailedEvent event;
  PhaseId phase = 0;
  struct Held {
    GroupId group;
    uint64_t bytes;
    uint32_t count;
  };
  TrackedBytes tracked;                  ///< of the device
  uint64_t linear_page_bytes = 0;        ///< pages that linear memory has there
  std::optional<LedgerSnapshot> ledger;  ///< what was in use then; none: the driver did not say
  uint64_t reserved_addresses = 0;
  std::vector<Held> holders;  ///< empty after the first kMaxFailuresWithHolders
};

/// Told of each change of live memory, as PeakFinder is: all parts of one step at once.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void on_step(std::span<const PeakFinder::Change> step) = 0;
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

class Replay {
 public:
  static constexpr size_t kMaxMarks = 10'000;
  static constexpr size_t kMaxFailures = 1000;
  static constexpr size_t kMaxFailuresWithHolders = 32;

  explicit Replay(const LogReader& log, StepObserver* observer = nullptr);
  /// Before run(): the phases of rules as well. `phases` must outlive this.
  void use_phases(const StackPhases& phases);
  void run(const Progress& progress);

  const LogReader& log() const { return log_; }
  const PeakFinder& peaks() const { return peaks_; }
  const SiteTable& sites() const { return sites_; }
  const PhaseTree& phases() const { return phases_; }
  const ArenaTable& arenas() const { return arenas_; }
  /// The first kMaxMarks.
  const std::vector<Mark>& marks() const { return marks_; }
  uint64_t mark_count() const { return mark_count_; }
  const StreamCounts& stream_counts() const { return stream_counts_; }
  const ReplayTroubles& troubles() const { return troubles_; }
  const std::vector<FailedAllocation>& failures() const { return failures_; }
  uint64_t failure_count() const { return failure_count_; }
  /// Usable bytes of the heap: requested bytes and what the allocator rounds them up by.
  const Gauge& heap_usable() const { return heap_usable_; }
  const Gauge& rss() const { return rss_; }
  const Gauge& brk_growth() const { return brk_growth_; }
  /// Bytes that pools have reserved, per device; -1: all devices.
  const std::map<int32_t, Gauge>& pool_reserved() const { return pools_.reserved(); }
  /// By device.
  const std::map<int32_t, DeviceLedger>& ledgers() const { return ledgers_; }
  const std::map<uint32_t, std::string_view>& thread_names() const { return thread_names_; }
  /// The text of a phase's name or of a tag.
  std::string_view name(uint32_t id) const;
  uint64_t largest_alloc_bytes(int32_t device) const;
  /// Mean of the sample that heap blocks are, or were at the end; 0: none was taken.
  uint64_t sample_bytes() const { return static_cast<uint64_t>(sample_bytes_); }
  /// When the log turned from all blocks to a sample; none: it did not.
  std::optional<uint64_t> sampled_since() const { return sampled_since_; }
  /// 95 % of sums over this many sampled blocks are not further off than this, in bytes.
  uint64_t sampling_error(uint64_t sampled_count) const;
  uint64_t last_ticks() const { return last_ticks_; }

  // EventStream's visitor.
  void prefetch(const Event& event) const {
    if (event.tag > GPUPEAK_REC_REALLOC_FAILED) return;
    blocks_.prefetch(event.address);
    if (event.tag == GPUPEAK_REC_ALLOC) {
      sites_.prefetch(slots_[event.slot].heap_context, event.stack);
    }
  }
  void prefetch_next(const Event& event) const {
    if (event.tag == GPUPEAK_REC_FREE) {
      if (const Block* block = blocks_.peek(event.address)) peaks_.prefetch(block->group);
    } else if (event.tag == GPUPEAK_REC_ALLOC) {
      const GroupId group = sites_.peek(slots_[event.slot].heap_context, event.stack);
      if (group != kNoGroup) peaks_.prefetch(group);
    }
  }
  void on_event(const Event& event) {
    if (stack_phases_ == nullptr || event.slot == active_slot_) [[likely]]
      return take(event);
    change_slot(event);
  }
  /// After the last event; run() calls it.
  void finish(const StreamCounts& counts);

 private:
  struct DeviceBlock {
    uint64_t id = 0;
    uint64_t bytes = 0;
    uint64_t ticks = 0;
    uint64_t address = 0;
    GroupId group = kNoGroup;
    PoolReserves::Id pool = PoolReserves::kNone;
  };
  /// What is known of one writer.
  struct SlotState {
    uint32_t tid = 0;
    bool reallocating = false;
    ContextId heap_context = 0;
    uint64_t heap_context_valid_for = 0;  // phase_changes_ + 1 when it was made
    uint64_t last_allocated = 0;          // address
    double sample_bytes = 0;              // mean of the sample that its heap blocks are; 0: all
    uint32_t rule = kNoRule;              // of the thread's last stack
    uint64_t rule_valid_for = 0;          // phase_changes_ + 1 when it was told
    std::vector<uint32_t> tags;           // name ids, the innermost last
    Block old_block;                      // while reallocating; address 0: not known
    std::vector<DeviceBlock> just_freed;  // device blocks that a failed free may bring back
  };

  void count_in(GroupId group, uint64_t bytes, uint64_t ticks) {
    peaks_.add(group, bytes, ticks);
    if (observer_ != nullptr) [[unlikely]]
      observe({group, static_cast<int64_t>(bytes), +1, true});
  }
  void count_out(GroupId group, uint64_t bytes) {
    peaks_.remove(group, bytes);
    if (observer_ != nullptr) [[unlikely]]
      observe({group, -static_cast<int64_t>(bytes), -1, false});
  }
  void apply(std::span<const PeakFinder::Change> step, uint64_t ticks) {
    peaks_.apply(step, ticks);
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_step(step);
  }
  void observe(const PeakFinder::Change& change) { observer_->on_step({&change, 1}); }
  void take(const Event& event);
  void change_slot(const Event& event);
  void heap_alloc(SlotState& slot, const Event& event);
  void heap_free(SlotState& slot, const Event& event);
  void realloc_begin(SlotState& slot, const Event& event);
  void realloc_end(SlotState& slot, const Event& event);
  void realloc_failed(SlotState& slot);
  Block& claim_block(const Event& event);
  Block new_block(SlotState& slot, const Event& event);
  void forget_realloc(SlotState& slot);
  void put_back_old_block(SlotState& slot);
  GroupId heap_group(SlotState& slot, const Event& event);
  GroupId mapping_group(const Event& event, uint8_t kind, uint32_t stack);
  static uint64_t weight(const SlotState& slot, uint64_t bytes);
  void begin_sampling(SlotState& slot, const SamplingEvent& sampling, uint64_t ticks);
  uint32_t checked_stack(uint32_t stack);

  SiteContext context(const SlotState& slot, const Event& event, uint8_t kind, int32_t device = -1,
                      uint32_t api = 0) const;
  /// What phase the thread is in by its stack. Before all that an event does.
  void enter_rule(SlotState& slot, const Event& event, uint32_t stack) {
    if (stack_phases_ != nullptr) [[unlikely]]
      change_rule(slot, event, stack);
  }
  [[gnu::noinline]] void change_rule(SlotState& slot, const Event& event, uint32_t stack);
  [[gnu::noinline]] void rare_event(SlotState& slot, const Event& event);
  [[gnu::noinline]] void change_thread(SlotState& slot, const Event& event);
  void on_map(const MapEvent& map, const Event& event);
  void on_remap(const RemapEvent& remap, const Event& event);
  void on_phase(const PhaseEvent& phase, const Event& event, bool push);
  void on_tag(SlotState& slot, const TagEvent& tag);
  void on_tag_pop(SlotState& slot);
  void on_device_alloc(const DeviceAllocEvent& alloc, const Event& event);
  void on_device_free(SlotState& slot, const DeviceFreeEvent& free, const Event& event);
  void on_device_revive(SlotState& slot, const DeviceReviveEvent& revive);
  void on_device_failed(const DeviceFailedEvent& failed, const Event& event);
  void on_driver_reading(const DriverReadingEvent& reading, const Event& event);
  TrackedBytes tracked_bytes(int32_t device) const;
  uint64_t live_bytes(int32_t device, uint8_t kind) const;
  PageCount* pages_of(const DeviceBlock& block);
  void note_life(const DeviceBlock& block, uint64_t ticks);
  void on_mark(const MarkEvent& mark, const Event& event);
  PhaseGauges phase_gauges();
  /// Of a name that the log defines or, where it does not, writes out.
  uint32_t name_id(uint32_t name, std::string_view text);

  const LogReader& log_;
  StepObserver* const observer_;
  PeakFinder peaks_;
  SiteTable sites_;
  BlockMap blocks_;
  MappingTable mappings_;
  PhaseTree phases_;
  ArenaTable arenas_;
  std::vector<Mark> marks_;
  uint64_t mark_count_ = 0;
  std::vector<SlotState> slots_;
  std::unordered_map<uint64_t, DeviceBlock> device_blocks_;
  PoolReserves pools_;
  std::map<int32_t, DeviceLedger> ledgers_;
  std::map<int32_t, uint64_t> largest_alloc_bytes_;
  std::map<uint32_t, std::string_view> thread_names_;
  const StackPhases* stack_phases_ = nullptr;
  std::vector<uint32_t> rule_names_;  // by rule: name ids
  std::map<std::string, uint32_t> inline_name_ids_;
  std::vector<std::string_view> inline_names_;  // into the map's keys
  std::vector<FailedAllocation> failures_;
  uint64_t failure_count_ = 0;
  Gauge heap_usable_, rss_, brk_growth_;
  ScopeId device_scope_, host_scope_;
  double sample_bytes_ = 0;  // of the slots that are sampled
  std::optional<uint64_t> sampled_since_;
  uint64_t phase_changes_ = 0;
  uint64_t short_life_ticks_;
  uint64_t last_ticks_ = 0;
  uint32_t active_slot_ = UINT32_MAX;  ///< whose event was the last, where rules make phases
  StreamCounts stream_counts_;
  ReplayTroubles troubles_;
  MappingTable::Changes changes_;
};

}  // namespace gpupeak::collector
