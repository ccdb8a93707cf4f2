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
#include "collector/log/kinds.h"
#include "collector/log/log_head.h"
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

  Kernel kernel(uint64_t number) const { return value_or(kernels_, number, {}); }
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
               ArenaTable& arenas, ReplayTroubles& troubles, ReplayObserver* observer)
      : live_(live),
        allocation_context_(allocation_context),
        arenas_(arenas),
        troubles_(troubles),
        observer_(observer),
        is_attached_(is_of_attached(log.header())),
        short_life_ticks_(short_life_ticks(log.clock())),
        just_freed_(log.slots().size()),
        roles_(log.definitions()) {}

  /// Call it before each device event, a malformed one too.
  void begin(const Event& event) {
    const bool of_a_free =
        event.tag == GPUPEAK_REC_DEVICE_FREE || event.tag == GPUPEAK_REC_DEVICE_REVIVE;
    if (!of_a_free) just_freed_[event.slot].clear();
  }
  void take(const DeviceAllocEvent& alloc, const Event& event) {
    const auto stale = blocks_.find(alloc.id);
    if (stale != blocks_.end()) {
      ++troubles_.repairs;
      count_out(stale->second, event.ticks);
      blocks_.erase(stale);
    }
    allocation_context_.enter_rule(event, alloc.stack);
    const int32_t device = device_of(alloc);
    const ContextId context =
        live_.sites().context(allocation_context_.context(event, alloc.kind, device, alloc.api));
    DeviceBlock block{alloc, event.ticks, event.tid, kNoGroup, PoolReserves::kNone};
    block.alloc.stack = allocation_context_.defined_stack(alloc.stack);
    block.group = live_.sites().group({block.alloc.stack, context});
    if (alloc.kind == GPUPEAK_KIND_POOL)
      block.pool = pools_.allocated(alloc.aux, {alloc.id, block.group, alloc.bytes});
    blocks_.emplace(alloc.id, block);
    count_in(block, event.ticks, true);
    if (is_device_kind(alloc.kind) && counts_into_sum(alloc.kind)) {
      for (const int32_t scope : {-1, device}) {
        uint64_t& largest = largest_alloc_bytes_[scope];
        largest = std::max(largest, alloc.bytes);
      }
    }
  }
  void take(const DeviceFreeEvent& free, const Event& event) {
    allocation_context_.enter_rule(event, free.stack);
    const auto entry = blocks_.find(free.id);
    if (entry == blocks_.end()) {
      ++troubles_.repairs;
      return;
    }
    const DeviceBlock block = entry->second;
    blocks_.erase(entry);
    count_out(block, event.ticks);
    note_life(block, event.ticks);
    just_freed_[event.slot].push_back(block);
  }
  /// The real free failed, so the block is live again.
  void take(const DeviceReviveEvent& revive, const Event& event) {
    std::vector<DeviceBlock>& just_freed = just_freed_[event.slot];
    const auto freed = std::ranges::find_if(
        just_freed, [&](const DeviceBlock& block) { return block.alloc.id == revive.id; });
    if (freed == just_freed.end() || blocks_.contains(revive.id)) {
      ++troubles_.repairs;
      return;
    }
    const DeviceBlock block = *freed;
    just_freed.erase(freed);
    pools_.revived(block.pool, block.alloc.bytes);
    blocks_.emplace(revive.id, block);
    count_in(block, event.ticks, false);
  }
  void take(const DeviceFailedEvent& failed, const Event& event) {
    allocation_context_.enter_rule(event, failed.stack);
    ++failure_count_;
    if (failures_.size() == kMaxFailures) failures_.pop_back();
    if (failures_.size() > kMaxFailuresWithHolders) {
      FailedAllocation& before = failures_.back();
      before.holders.clear();
      before.arenas.clear();
      before.whole = false;
    }
    FailedAllocation& failure = failures_.emplace_back();
    failure.ticks = event.ticks;
    failure.event = failed;
    failure.tid = event.tid;
    failure.phase = allocation_context_.phases().innermost(event.slot);
    if (failed.device >= 0) {
      failure.tracked = tracked_bytes(failed.device);
      failure.linear_page_bytes = ledgers_[failed.device].pages().bytes();
      failure.reserved_addresses = live_.bytes_of(failed.device, GPUPEAK_KIND_VMM_VA);
      if (failed.free_plus_1 > 0 && failed.total_plus_1 >= failed.free_plus_1) {
        failure.ledger = ledgers_[failed.device].on_failed_allocation(
            failed.total_plus_1 - failed.free_plus_1, failure.tracked, event.ticks);
      } else if (failed.kind == GPUPEAK_KIND_NONE) {
        // Before there is a context only NVML can be asked. It was asked just before the call.
        failure.ledger = ledgers_[failed.device].last();
      }
    }
    if (patience_.has_ended()) return;
    const uint64_t arenas_steps = failed.device >= 0 ? arenas_.steps_of_all() : 0;
    if (!patience_.take(live_.sites().group_count() + arenas_steps)) return;
    note_holders(failure);
    failure.whole = true;
    if (failed.device >= 0) failure.arenas = arenas_.all_on(failed.device);
  }
  void take(const HostFailedEvent& failed, const Event& event) {
    DeviceFailedEvent request{};
    request.kind = failed.kind;
    request.device = -1;
    request.bytes = failed.bytes;
    request.live = live_.host_bytes();
    request.api = failed.api;
    request.stack = failed.stack;
    take(request, event);
    failures_.back().host = failed;
  }
  void take(const PoolEvent& pool, const Event& event) {
    pools_.on_event(pool, event.ticks, [this](uint64_t id) { return blocks_.contains(id); });
    note_ledger(pool.device, event.ticks);
  }
  /// Changes no sums: a context's blocks are freed by events before this one.
  void take(const ContextEvent& context) {
    if (context.event == GPUPEAK_CONTEXT_CREATED && context.device >= 0)
      ledgers_[context.device].context_created();
  }
  void take(const DriverReadingEvent& reading, const Event& event) {
    ledgers_[reading.device].on_reading(reading, tracked_bytes(reading.device), event.ticks);
  }

  /// The longest life of a group's freed blocks.
  uint64_t longest_life_ticks(GroupId group) const { return value_or(longest_lives_, group, 0); }
  /// The largest allocation of a device, or of all (-1).
  uint64_t largest_alloc_bytes(int32_t device) const {
    return value_or(largest_alloc_bytes_, device, 0);
  }
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
  /// A device block that lives shorter than this is temporary: a second, or a tenth of a short run.
  static uint64_t short_life_ticks(const ClockMap& clock) {
    const uint64_t second = clock.ticks_per_second();
    const uint64_t tenth = clock.span_ticks() / 10;
    return tenth == 0 ? second : std::min(second, tenth);
  }

  /// The device whose memory the block is; -1: it is the host's.
  static int32_t device_of(const DeviceAllocEvent& alloc) {
    return is_device_kind(alloc.kind) ? alloc.device : -1;
  }
  void count_in(const DeviceBlock& block, uint64_t ticks, bool allocates) {
    const PeakFinder::Change change{block.group, static_cast<int64_t>(block.alloc.bytes), +1,
                                    allocates};
    live_.apply({&change, 1}, ticks);
    arenas_.device_allocated(
        {block.alloc.id, block.alloc.kind, device_of(block.alloc), block.alloc.address,
         block.alloc.bytes, block.group, block.alloc.captured},
        ticks);
    if (PageCount* pages = pages_of(block))
      pages->count(block.alloc.address, block.alloc.bytes, true);
    const int32_t device = device_of(block.alloc);
    if (device >= 0 && live_.peak_ticks_of(device) == ticks) note_ledger(device, ticks);
    if (roles_.are_recorded()) {
      roles_.began(block.alloc.id,
                   {device_of(block.alloc), block.group, block.alloc.bytes, block.ticks});
    }
    if (observer_ != nullptr) observer_->on_block_alloc(block);
  }
  void note_ledger(int32_t device, uint64_t ticks) {
    const auto ledger = ledgers_.find(device);
    if (ledger != ledgers_.end()) ledger->second.on_tracked(tracked_bytes(device), ticks);
  }
  void count_out(const DeviceBlock& block, uint64_t ticks) {
    arenas_.device_freed(block.alloc.id, ticks);
    const PeakFinder::Change change{block.group, -static_cast<int64_t>(block.alloc.bytes), -1,
                                    false};
    live_.apply({&change, 1}, ticks);
    if (PageCount* pages = pages_of(block))
      pages->count(block.alloc.address, block.alloc.bytes, false);
    pools_.freed(block.pool, block.alloc.bytes);
    if (roles_.are_recorded())
      roles_.ended(block.alloc.id, ticks, live_.peak_ticks_of(device_of(block.alloc)));
    if (observer_ != nullptr) observer_->on_block_free(block);
  }
  void note_life(const DeviceBlock& block, uint64_t ticks) {
    const uint64_t life = ticks - block.ticks;
    if (life < short_life_ticks_) live_.peaks().note_temporary(block.group);
    uint64_t& longest = longest_lives_[block.group];
    longest = std::max(longest, life);
  }
  /// Notes who holds memory of the device, or of the host, that had no room.
  void note_holders(FailedAllocation& failure) const {
    const DeviceFailedEvent& failed = failure.event;
    const bool of_host = failed.kind != GPUPEAK_KIND_NONE && !is_device_kind(failed.kind);
    for (GroupId id{0}; id < live_.sites().group_count(); ++id) {
      const PeakFinder::Group& group = live_.peaks().group(id);
      const SiteContext& context = live_.sites().context_of(id);
      const bool same_side =
          is_device_kind(context.kind) != of_host && counts_into_sum(context.kind);
      const bool same_device = of_host || failed.device < 0 || context.device == failed.device;
      if (group.live_bytes == 0 || !same_side || !same_device) continue;
      failure.holders.push_back({id, group.live_bytes, group.live_count});
    }
  }
  /// The page count of the block's device; nullptr: the block's kind has no pages there.
  PageCount* pages_of(const DeviceBlock& block) {
    const int32_t device = device_of(block.alloc);
    if (device < 0 || memory_kind(block.alloc.kind).rounding != MemoryKind::Rounding::Pages)
      return nullptr;
    DeviceLedger& ledger = ledgers_[device];
    return counts_into_sum(block.alloc.kind) ? &ledger.pages() : &ledger.managed_pages();
  }
  TrackedBytes tracked_bytes(int32_t device) const {
    const auto reserved = pools_.reserved().find(device);
    TrackedBytes tracked;
    for (uint8_t kind = GPUPEAK_FIRST_DEVICE_KIND; kind < GPUPEAK_KIND_LIMIT; ++kind) {
      if (counts_into_sum(kind)) tracked.of[kind] = live_.bytes_of(device, kind);
    }
    if (reserved != pools_.reserved().end()) tracked.pool_reserved = reserved->second.current;
    if (live_.sites().is_integrated(device)) tracked.host = live_.host_bytes();
    tracked.had_more = is_attached_;
    return tracked;
  }

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
