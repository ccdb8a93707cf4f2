// Who looks on while a log is replayed: told of each change when it happens, so that it can write
// as it goes and no event need be kept. Time series, merge, the page's instants and the exports are
// such; what they add up is what the replay added up, since none of them looks at a record itself.
//
//   event      the observer is told
//   alloc      on_step {+100}                         after
//   realloc    on_step {-100, +150}  (one step)       after
//   cuMemAlloc on_step {+4096}  on_block_alloc        after
//   push       on_phase_begin                         after
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/log/event.h"
#include "collector/replay/arena_accounts.h"
#include "collector/replay/peak_finder.h"
#include "collector/replay/pool_reserves.h"

namespace gpupeak::collector {

class Replay;

/// What the driver handed out: a block of device memory, or pinned.
struct DeviceBlock {
  DeviceAllocEvent alloc;  ///< `stack` is one that the log defines
  uint64_t ticks = 0;      ///< of its allocation
  uint32_t tid = 0;        ///< by whom
  GroupId group = kNoGroup;
  PoolReserves::Id pool = PoolReserves::kNone;
};

/// A pool's block that comes into use, or goes out of it.
struct ArenaBlockChange {
  uint64_t address = 0, bytes = 0;
  HolderId holder = kNoHolder;              ///< whose, in which arena
  bool alone = false;                       ///< lies in no segment: is its own memory
  bool in_use = false;                      ///< from now on
  uint64_t arena = 0;                       ///< whose, by the log's number
  std::span<const PartOfBlock> parts = {};  ///< what all of it is shared out to; empty: to nobody
};

/// What a phase is called, and by whom.
struct PhaseLabel {
  uint32_t name = 0;      ///< Replay::name()
  uint8_t source = 0;     ///< GPUPEAK_PHASE_*
  uint64_t instance = 0;  ///< session, domain …
  bool by_call = false;   ///< of a rule: each call of a function is one
};

/// What phases lie on top of each other in: the process, or the thread that a writer's slot has.
struct PhaseTrack {
  bool of_process = false;
  uint32_t slot = 0;  ///< of a thread's
};
inline constexpr PhaseTrack kOfProcess{true, 0};
inline constexpr PhaseTrack of_thread(uint32_t slot) {
  return {false, slot};
}

class ReplayObserver {
 public:
  virtual ~ReplayObserver() = default;

  /// Live memory changes. The parts of a step happen at once and come in the order in which they
  /// were made: pieces that a split makes before what becomes of them, and never more at once than
  /// before or after.
  virtual void on_step(std::span<const PeakFinder::Change> /*step*/) {}
  /// A block of the driver's, after the step that counts it. One whose free failed is told as an
  /// allocation: by then the free has been told.
  virtual void on_block_alloc(const DeviceBlock& /*block*/) {}
  virtual void on_block_free(const DeviceBlock& /*block*/) {}

  // Sub-allocators, after their events were counted. Blocks that end with their arena or with the
  // memory under them are not told one by one.
  virtual void on_arena(const ArenaEvent& /*arena*/) {}
  /// `stack`: one that the log defines.
  virtual void on_arena_alloc(const ArenaAllocEvent& /*alloc*/, uint32_t /*stack*/) {}
  virtual void on_arena_free(const ArenaFreeEvent& /*free*/) {}
  virtual void on_arena_failed(const ArenaFailedEvent& /*failed*/, uint32_t /*stack*/) {}
  /// Each block of theirs, also when it ends with its arena or with the memory under it.
  virtual void on_arena_block(const ArenaBlockChange& /*change*/) {}
  /// How much holders of arenas have, and what is outside of arenas: the groups are HolderIds.
  virtual void on_arena_step(std::span<const PeakFinder::Change> /*step*/) {}
  /// Where created memory can be used.
  virtual void on_mapped(const DeviceMappedEvent& /*mapped*/) {}
  virtual void on_unmapped(const DeviceUnmappedEvent& /*unmapped*/) {}

  /// When a block was seen used, before its end is told; and that all live ones were.
  virtual void on_used(const UsedEvent& /*used*/, uint64_t /*ticks*/) {}
  virtual void on_uses_end(const UsesEndEvent& /*end*/) {}

  /// A phase lies on top of its track from `ticks` on. No two phases have one number, and later
  /// ones have larger numbers.
  virtual void on_phase_begin(PhaseTrack /*track*/, uint64_t /*number*/,
                              const PhaseLabel& /*label*/, uint64_t /*ticks*/) {}
  /// The phase with this number has gone from its track; those above it stay. Of a rule's phase
  /// `ticks` may be earlier than now: the last event of a thread that has rested since.
  virtual void on_phase_end(PhaseTrack /*track*/, uint64_t /*number*/, uint64_t /*ticks*/) {}
  /// Ranges overlap freely. Several may have one id: an end is that of the one begun last.
  virtual void on_range_begin(uint64_t /*id*/, const PhaseLabel& /*label*/, uint64_t /*ticks*/) {}
  virtual void on_range_end(uint64_t /*id*/, const PhaseLabel& /*label*/, uint64_t /*ticks*/) {}

  virtual void on_sample(const SampleEvent& /*sample*/) {}
  /// Before each event that is none of the heap's.
  virtual void before(const Event& /*event*/) {}
  /// After each event, when all that it changed was told. Of equal logs each event has the same
  /// number.
  virtual void after(const Event& /*event*/) {}

 protected:
  /// Who is looked at: as it stands after the change that is told.
  const Replay& replay() const { return *replay_; }

 private:
  friend class Replay;
  const Replay* replay_ = nullptr;
};

}  // namespace gpupeak::collector
