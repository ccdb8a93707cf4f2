// The device's part of a replay: the driver's blocks, its memory pools, failed allocations, and the
// ledger of each device.
//
// A free is logged before the real call, and the call may fail. So each slot remembers the blocks
// that its thread freed last (just_freed), until the slot's next device event shows that the call
// succeeded:
//
//   DEVICE_FREE 1     live: –     just_freed {1}
//   DEVICE_REVIVE 1   live: 1     just_freed {}      the call failed
//   DEVICE_ALLOC 2    live: 1 2   just_freed {}      from here on block 1 cannot be revived
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/log_reader.h"
#include "collector/replay/allocation_context.h"
#include "collector/replay/arena_causes.h"
#include "collector/replay/arena_table.h"
#include "collector/replay/block_roles.h"
#include "collector/replay/ledger.h"
#include "collector/replay/live_memory.h"
#include "collector/replay/replay_observer.h"
#include "collector/replay/troubles.h"

namespace gpupeak::collector {

/// A failed allocation, and who held the device's memory at that instant.
struct FailedAllocation {
  uint64_t ticks = 0;
  DeviceFailedEvent event;
  std::optional<HostFailedEvent> host;  ///< if the machine refused the request, and not the driver
  PhaseId phase = 0;
  TrackedBytes tracked;            ///< of the device
  uint64_t linear_page_bytes = 0;  ///< of the pages that linear memory has on the device
  /// What was in use then, by the driver; none: it did not say.
  std::optional<LedgerSnapshot> ledger;
  uint64_t reserved_addresses = 0;
  uint32_t tid = 0;
  std::vector<ArenaTable::Snapshot> arenas;  ///< of the device
  bool whole = false;  ///< holders and arenas are here; false: they were left out
  std::vector<Contribution> holders;
};

class DeviceReplay {
 public:
  static constexpr size_t kMaxFailures = 1000;
  static constexpr size_t kMaxFailuresWithHolders = 32;

  DeviceReplay(const LogReader& log, LiveMemory& live, AllocationContext& allocation_context,
               ArenaTable& arenas, ReplayTroubles& troubles, ReplayObserver* observer);

  /// Call it before each device event, a malformed one too.
  void begin(const Event& event) {
    const bool of_a_free =
        event.tag == GPUPEAK_REC_DEVICE_FREE || event.tag == GPUPEAK_REC_DEVICE_REVIVE;
    if (!of_a_free) just_freed_[event.slot].clear();
  }
  void take(const DeviceAllocEvent& alloc, const Event& event);
  void take(const DeviceFreeEvent& free, const Event& event);
  void take(const DeviceReviveEvent& revive, const Event& event);
  void take(const DeviceFailedEvent& failed, const Event& event);
  void take(const HostFailedEvent& failed, const Event& event);
  void take(const PoolEvent& pool, const Event& event) {
    pools_.on_event(pool, event.ticks, [this](uint64_t id) { return blocks_.contains(id); });
  }
  void take(const ContextEvent& context);
  void take(const DriverReadingEvent& reading, const Event& event);

  /// The longest life of a group's freed blocks.
  uint64_t longest_life_ticks(GroupId group) const;
  /// The largest allocation of a device, or of all (-1).
  uint64_t largest_alloc_bytes(int32_t device) const;
  /// The first kMaxFailures. If there are more, the last place has the last failure of all. The
  /// first kMaxFailuresWithHolders and the last have their holders, until patience_ ends.
  const std::vector<FailedAllocation>& failures() const { return failures_; }
  uint64_t failure_count() const { return failure_count_; }
  /// Bytes that memory pools have reserved, by device; -1: all devices.
  const std::map<int32_t, Gauge>& pool_reserved() const { return pools_.reserved(); }
  const PoolReserves& pools() const { return pools_; }
  /// Call it after the last event.
  void finish() { pools_.finish(); }
  BlockRoles& roles() { return roles_; }
  const BlockRoles& roles() const { return roles_; }
  /// By device.
  const std::map<int32_t, DeviceLedger>& ledgers() const { return ledgers_; }

 private:
  void count_in(const DeviceBlock& block, uint64_t ticks, bool allocates);
  void count_out(const DeviceBlock& block, uint64_t ticks);
  void note_life(const DeviceBlock& block, uint64_t ticks);
  void note_holders(FailedAllocation& failure) const;
  PageCount* pages_of(const DeviceBlock& block);
  TrackedBytes tracked_bytes(int32_t device) const;

  LiveMemory& live_;
  AllocationContext& allocation_context_;
  ArenaTable& arenas_;  // is told of each block: arenas share them out
  ReplayTroubles& troubles_;
  ReplayObserver* const observer_;
  const bool is_attached_;
  const uint64_t short_life_ticks_;
  std::unordered_map<uint64_t, DeviceBlock> blocks_;  // by id
  std::vector<std::vector<DeviceBlock>> just_freed_;  // by slot
  std::unordered_map<GroupId, uint64_t> longest_lives_;
  PoolReserves pools_;
  BlockRoles roles_;
  std::map<int32_t, DeviceLedger> ledgers_;
  std::map<int32_t, uint64_t> largest_alloc_bytes_;
  std::vector<FailedAllocation> failures_;
  uint64_t failure_count_ = 0;
  RefusalPatience patience_;
};

}  // namespace gpupeak::collector
