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

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/log/event.h"
#include "collector/log/log_reader.h"
#include "collector/replay/allocation_context.h"
#include "collector/replay/arena_accounts.h"
#include "collector/replay/arena_table.h"
#include "collector/replay/ledger.h"
#include "collector/replay/live_blocks.h"
#include "collector/replay/live_memory.h"
#include "collector/replay/replay_observer.h"
#include "collector/replay/troubles.h"

namespace gpupeak::collector {

// What blocks of the driver's were used for: copies, fills and kernels, by the log's ROLE records.
// Of each device the blocks are kept that live, and those that were live at its peak so far.
//
//   alloc 5   ROLE 5 copied_in   [peak]   free 5    kept, until there is a higher peak

// What a log says of a block's uses (`run --last-use`), and how they stand to an instant: the last
// use before it, the first one after it, or both.
//
//   block     first use  [instant]  last use    then
//   weights   +0.2 s     +2.0 s     +3.0 s      used before and after
//   gradient  +0.6 s     +2.0 s     +0.6 s      last seen used 1.4 s before
//
// The time of a use is when the work was given to the device.

/// How a block was used around an instant.
enum class UseAtPeak : uint8_t {
  kOver,      ///< not seen used after it
  kEarly,     ///< not seen used before it
  kIdle,      ///< seen used before and after; the time between is its longest without use
  kNever,     ///< not seen used in its life
  kInUse,     ///< seen used before and after
  kNotKnown,  ///< the log does not say: the process did not end in order, or left it out
};

/// How a block's uses stand to an instant, and a time in ticks: since the last use (kOver), until
/// the first one (kEarly), or without use (kIdle).
struct UseStanding {
  UseAtPeak use = UseAtPeak::kNotKnown;
  uint64_t ticks = 0;
};

/// The uses of one block; times in ticks.
struct BlockUses {
  bool is_known = false;  ///< the log says something of its uses
  uint64_t count = 0, first = 0, last = 0;
  uint64_t idle_since = 0, idle = 0;

  /// Adds a record of the block's uses, which has this time.
  void add(const UsedEvent& used, uint64_t ticks) {
    is_known = true;
    if (used.count == 0) return;
    const uint64_t its_first = ticks - used.first_ago, its_last = ticks - used.last_ago;
    if (count == 0) first = its_first;
    last = std::max(last, its_last);
    count += used.count;
    if (used.idle <= idle) return;
    idle = used.idle;
    idle_since = ticks - used.idle_since_ago;
  }
  UseStanding at(uint64_t ticks) const {
    if (!is_known) return {UseAtPeak::kNotKnown, 0};
    if (count == 0) return {UseAtPeak::kNever, 0};
    if (last <= ticks) return {UseAtPeak::kOver, ticks - last};
    if (first > ticks) return {UseAtPeak::kEarly, first - ticks};
    const bool spans = idle_since <= ticks && idle_since + idle > ticks;
    return spans ? UseStanding{UseAtPeak::kIdle, idle} : UseStanding{UseAtPeak::kInUse, 0};
  }
};

class BlockRoles {
 public:
  struct Kernel {
    uint32_t name = 0, stack = 0;  ///< 0: not known
  };
  /// As RoleEvent has it.
  struct Role {
    uint64_t kernel, place, count;
  };
  struct Block {
    int32_t device = -1;
    GroupId group = kNoGroup;
    uint64_t bytes = 0, ticks = 0;       ///< when it was allocated
    std::optional<uint64_t> freed = {};  ///< ticks; none: it lives
    BlockUses uses = {};
    std::vector<Role> roles = {};
  };

  explicit BlockRoles(const Definitions& definitions)
      : are_recorded_(definitions.fact("roles") == "on"),
        have_all_launches_(definitions.fact("launches").empty()) {}

  bool are_recorded() const { return are_recorded_; }
  /// Whether every launch was looked at.
  bool have_all_launches() const { return have_all_launches_; }

  void began(uint64_t id, Block block) {
    if (id == last_ended_) {
      block = last_;
      block.freed.reset();
      std::vector<Block>& ended = ended_[block.device].blocks;
      if (!ended.empty() && ended.back().ticks == block.ticks && ended.back().group == block.group)
        ended.pop_back();
    }
    live_.insert_or_assign(id, std::move(block));
  }
  /// `peak_ticks`: when its device's peak so far was.
  void ended(uint64_t id, uint64_t ticks, uint64_t peak_ticks) {
    const auto found = live_.find(id);
    if (found == live_.end()) return;
    last_ended_ = id;
    last_ = std::move(found->second);
    last_.freed = ticks;
    live_.erase(found);
    if (last_.ticks > peak_ticks) return;
    Ended& ended = ended_[last_.device];
    if (ended.peak_ticks != peak_ticks) ended = {peak_ticks, {}};
    ended.blocks.push_back(last_);
  }
  void define(const KernelEvent& kernel, uint32_t stack) {
    kernels_[kernel.kernel] = {kernel.name, stack};
  }
  void note(const RoleEvent& event) {
    const auto block = event.arena == 0 ? live_.find(event.block) : live_.end();
    if (block == live_.end()) return;
    std::vector<Role>& roles = block->second.roles;
    const auto known = std::ranges::find_if(roles, [&](const Role& role) {
      return role.kernel == event.kernel && role.place == event.place;
    });
    if (known == roles.end())
      roles.push_back({event.kernel, event.place, event.count});
    else
      known->count = std::max(known->count, event.count);
  }
  void note(const UsedEvent& used, uint64_t ticks) {
    const auto found = used.arena == 0 ? live_.find(used.block) : live_.end();
    if (found != live_.end()) found->second.uses.add(used, ticks);
  }

  Kernel kernel(uint64_t number) const {
    const auto found = kernels_.find(number);
    return found != kernels_.end() ? found->second : Kernel{};
  }
  /// Calls `visit(block)` for the device's blocks that were live at its peak.
  template <typename Visit>
  void visit_at_peak(int32_t device, uint64_t peak_ticks, Visit visit) const {
    for (const auto& [id, block] : live_) {
      if (block.device == device && block.ticks <= peak_ticks) visit(block);
    }
    const auto ended = ended_.find(device);
    if (ended == ended_.end() || ended->second.peak_ticks != peak_ticks) return;
    for (const Block& block : ended->second.blocks) visit(block);
  }

 private:
  struct Ended {
    uint64_t peak_ticks = 0;
    std::vector<Block> blocks;  ///< that were live at the peak of this time
  };

  const bool are_recorded_, have_all_launches_;
  std::unordered_map<uint64_t, Block> live_;
  std::unordered_map<uint64_t, Kernel> kernels_;
  std::map<int32_t, Ended> ended_;
  uint64_t last_ended_ = 0;  ///< the block `last_`, which lives on if its free failed
  Block last_;
};

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
