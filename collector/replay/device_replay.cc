#include "collector/replay/device_replay.h"

#include <algorithm>

#include "collector/log/kinds.h"
#include "collector/log/log_head.h"

namespace gpupeak::collector {
namespace {

/// A device block that lives shorter than this is temporary: a second, or a tenth of a short run.
uint64_t short_life_ticks(const ClockMap& clock) {
  const uint64_t second = clock.ticks_per_second();
  const uint64_t tenth = clock.span_ticks() / 10;
  return tenth == 0 ? second : std::min(second, tenth);
}

/// The device whose memory the block is; -1: it is the host's.
int32_t device_of(const DeviceAllocEvent& alloc) {
  return is_device_kind(alloc.kind) ? alloc.device : -1;
}

}  // namespace

DeviceReplay::DeviceReplay(const LogReader& log, LiveMemory& live,
                           AllocationContext& allocation_context, ArenaTable& arenas,
                           ReplayTroubles& troubles, ReplayObserver* observer)
    : live_(live),
      allocation_context_(allocation_context),
      arenas_(arenas),
      troubles_(troubles),
      observer_(observer),
      is_attached_(is_of_attached(log.header())),
      short_life_ticks_(short_life_ticks(log.clock())),
      just_freed_(log.slots().size()),
      roles_(log.definitions()) {}

/// The page count of the block's device; nullptr: the block's kind has no pages there.
PageCount* DeviceReplay::pages_of(const DeviceBlock& block) {
  const int32_t device = device_of(block.alloc);
  if (device < 0 || memory_kind(block.alloc.kind).rounding != MemoryKind::Rounding::Pages)
    return nullptr;
  DeviceLedger& ledger = ledgers_[device];
  return counts_into_sum(block.alloc.kind) ? &ledger.pages() : &ledger.managed_pages();
}

void DeviceReplay::count_in(const DeviceBlock& block, uint64_t ticks, bool allocates) {
  const PeakFinder::Change change{block.group, static_cast<int64_t>(block.alloc.bytes), +1,
                                  allocates};
  live_.apply({&change, 1}, ticks);
  arenas_.device_allocated(
      {block.alloc.id, block.alloc.kind, device_of(block.alloc), block.alloc.address,
       block.alloc.bytes, block.group, block.alloc.captured},
      ticks);
  if (PageCount* pages = pages_of(block))
    pages->count(block.alloc.address, block.alloc.bytes, true);
  if (roles_.are_recorded()) {
    roles_.began(block.alloc.id,
                 {device_of(block.alloc), block.group, block.alloc.bytes, block.ticks});
  }
  if (observer_ != nullptr) observer_->on_block_alloc(block);
}

void DeviceReplay::count_out(const DeviceBlock& block, uint64_t ticks) {
  arenas_.device_freed(block.alloc.id, ticks);
  const PeakFinder::Change change{block.group, -static_cast<int64_t>(block.alloc.bytes), -1, false};
  live_.apply({&change, 1}, ticks);
  if (PageCount* pages = pages_of(block))
    pages->count(block.alloc.address, block.alloc.bytes, false);
  pools_.freed(block.pool, block.alloc.bytes);
  if (roles_.are_recorded())
    roles_.ended(block.alloc.id, ticks, live_.peak_ticks_of(device_of(block.alloc)));
  if (observer_ != nullptr) observer_->on_block_free(block);
}

void DeviceReplay::take(const DeviceAllocEvent& alloc, const Event& event) {
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

uint64_t DeviceReplay::largest_alloc_bytes(int32_t device) const {
  const auto entry = largest_alloc_bytes_.find(device);
  return entry == largest_alloc_bytes_.end() ? 0 : entry->second;
}

uint64_t DeviceReplay::longest_life_ticks(GroupId group) const {
  const auto entry = longest_lives_.find(group);
  return entry == longest_lives_.end() ? 0 : entry->second;
}

void DeviceReplay::note_life(const DeviceBlock& block, uint64_t ticks) {
  const uint64_t life = ticks - block.ticks;
  if (life < short_life_ticks_) live_.peaks().note_temporary(block.group);
  uint64_t& longest = longest_lives_[block.group];
  longest = std::max(longest, life);
}

void DeviceReplay::take(const DeviceFreeEvent& free, const Event& event) {
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
void DeviceReplay::take(const DeviceReviveEvent& revive, const Event& event) {
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

void DeviceReplay::take(const DeviceFailedEvent& failed, const Event& event) {
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

void DeviceReplay::take(const HostFailedEvent& failed, const Event& event) {
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

/// Notes who holds memory of the device, or of the host, that had no room.
void DeviceReplay::note_holders(FailedAllocation& failure) const {
  const DeviceFailedEvent& failed = failure.event;
  const bool of_host = failed.kind != GPUPEAK_KIND_NONE && !is_device_kind(failed.kind);
  for (GroupId id{0}; id < live_.sites().group_count(); ++id) {
    const PeakFinder::Group& group = live_.peaks().group(id);
    const SiteContext& context = live_.sites().context_of(id);
    const bool same_side = is_device_kind(context.kind) != of_host && counts_into_sum(context.kind);
    const bool same_device = of_host || failed.device < 0 || context.device == failed.device;
    if (group.live_bytes == 0 || !same_side || !same_device) continue;
    failure.holders.push_back({id, group.live_bytes, group.live_count});
  }
}

TrackedBytes DeviceReplay::tracked_bytes(int32_t device) const {
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

void DeviceReplay::take(const DriverReadingEvent& reading, const Event& event) {
  ledgers_[reading.device].on_reading(reading, tracked_bytes(reading.device), event.ticks);
}

/// Changes no sums: a context's blocks are freed by events before this one.
void DeviceReplay::take(const ContextEvent& context) {
  if (context.event == GPUPEAK_CONTEXT_CREATED && context.device >= 0)
    ledgers_[context.device].context_created();
}

}  // namespace gpupeak::collector
