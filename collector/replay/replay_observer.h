// Observes the replay of a log. It is told of each change when it happens, so that it can write as
// it goes and no event must be kept. Time series, merge, the page's instants and the exports are
// observers. What they add up is what the replay added up, since none of them reads a record
// itself.
//
//   event      the observer is told
//   alloc      on_step {+100}                         after
//   realloc    on_step {-100, +150}  (one step)       after
//   cuMemAlloc on_step {+4096}  on_block_alloc        after
//   push       on_phase_begin                         after
#pragma once

#include <cstdint>
#include <span>

#include "collector/log/event.h"
#include "collector/replay/arena_accounts.h"
#include "collector/replay/peak_finder.h"

namespace gpupeak::collector {

class Replay;

/// A block that the driver handed out: device memory, or pinned.
struct DeviceBlock {
  DeviceAllocEvent alloc;  ///< `stack` is one that the log defines
  uint64_t ticks = 0;      ///< when it was allocated
  uint32_t tid = 0;        ///< the thread that allocated it
  GroupId group = kNoGroup;
  PoolReserves::Id pool = PoolReserves::kNone;
};

/// A block of an arena that comes into use, or goes out of it.
struct ArenaBlockChange {
  uint64_t address = 0, bytes = 0;
  HolderId holder = kNoHolder;  ///< who holds it, in which arena
  bool alone = false;           ///< it lies in no segment and is its own memory
  bool in_use = false;          ///< after this change
  uint64_t arena = 0;           ///< its arena, by the log's number
  /// To what all of it is shared out; empty: it is one part.
  std::span<const PartOfBlock> parts = {};
};

/// What a phase is called, and by whom.
struct PhaseLabel {
  uint32_t name = 0;      ///< Replay::name()
  uint8_t source = 0;     ///< GPUPEAK_PHASE_*
  uint64_t instance = 0;  ///< session, domain …
  bool by_call = false;   ///< of a rule: each call of the function is an instance
};

/// A stack of phases: the process's, or that of the thread that a writer's slot has.
struct PhaseTrack {
  bool of_process = false;
  uint32_t slot = 0;  ///< if it is a thread's
};
inline constexpr PhaseTrack kOfProcess{true, 0};
inline constexpr PhaseTrack of_thread(uint32_t slot) {
  return {false, slot};
}

class ReplayObserver {
 public:
  virtual ~ReplayObserver() = default;

  /// Live memory changes. The parts of a step happen at once and come in the order in which they
  /// were made. The pieces of a mapping that is split come before what becomes of them. No sum is
  /// ever higher in between than before or after the step.
  virtual void on_step(std::span<const PeakFinder::Change> /*step*/) {}
  /// A block of the driver's, after the step that counts it. If a free failed, the free is told
  /// first and then an allocation of the same block.
  virtual void on_block_alloc(const DeviceBlock& /*block*/) {}
  virtual void on_block_free(const DeviceBlock& /*block*/) {}

  // Arenas' events, after they were counted. Blocks that end with their arena or with the memory
  // under them have no event of their own here.
  virtual void on_arena(const ArenaEvent& /*arena*/) {}
  /// `stack` is one that the log defines.
  virtual void on_arena_alloc(const ArenaAllocEvent& /*alloc*/, uint32_t /*stack*/) {}
  virtual void on_arena_free(const ArenaFreeEvent& /*free*/) {}
  virtual void on_arena_failed(const ArenaFailedEvent& /*failed*/, uint32_t /*stack*/) {}
  /// Each block of an arena, also one that ends with its arena or with the memory under it.
  virtual void on_arena_block(const ArenaBlockChange& /*change*/) {}
  /// Changes of what arenas' holders have, and of what is outside of arenas. The groups are
  /// HolderIds.
  virtual void on_arena_step(std::span<const PeakFinder::Change> /*step*/) {}
  /// Created memory can be used at these addresses from now on, or no longer.
  virtual void on_mapped(const DeviceMappedEvent& /*mapped*/) {}
  virtual void on_unmapped(const DeviceUnmappedEvent& /*unmapped*/) {}

  /// When a block was seen in use, before its end is told.
  virtual void on_used(const UsedEvent& /*used*/, uint64_t /*ticks*/) {}

  /// A phase lies on top of its track from `ticks` on. Each has a number of its own, and later ones
  /// have larger numbers.
  virtual void on_phase_begin(PhaseTrack /*track*/, uint64_t /*number*/,
                              const PhaseLabel& /*label*/, uint64_t /*ticks*/) {}
  /// The phase with this number has left its track; those above it stay. For a rule's phase `ticks`
  /// may be earlier than now: the last event of its thread before a rest.
  virtual void on_phase_end(PhaseTrack /*track*/, uint64_t /*number*/, uint64_t /*ticks*/) {}
  /// Ranges overlap freely. Several may have one id: an end then belongs to the one that began
  /// last.
  virtual void on_range_begin(uint64_t /*id*/, const PhaseLabel& /*label*/, uint64_t /*ticks*/) {}
  virtual void on_range_end(uint64_t /*id*/, const PhaseLabel& /*label*/, uint64_t /*ticks*/) {}

  virtual void on_sample(const SampleEvent& /*sample*/) {}
  /// Called before each event that is not the heap's.
  virtual void before(const Event& /*event*/) {}
  /// Called after each event, when all that it changed was told. In equal logs each event has the
  /// same number.
  virtual void after(const Event& /*event*/) {}

 protected:
  /// The replay that is observed, as it is after the change that is told.
  const Replay& replay() const { return *replay_; }

 private:
  friend class Replay;
  const Replay* replay_ = nullptr;
};

}  // namespace gpupeak::collector
