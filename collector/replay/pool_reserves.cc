#include "collector/replay/pool_reserves.h"

namespace gpupeak::collector {

PoolReserves::Id PoolReserves::id_of(uint64_t handle) {
  const auto [entry, added] = by_handle_.try_emplace(handle, last_ + 1);
  if (added) pools_[++last_];
  return entry->second;
}

void PoolReserves::change(Pool& pool, int32_t device, uint64_t reserved) {
  const auto move = [this](int32_t where, uint64_t by) {
    if (where < 0 || by == 0) return;  // a pool of host memory
    for (const int32_t scope : {-1, where}) {
      Gauge& gauge = reserved_[scope];
      gauge.set(gauge.current + by);
    }
  };
  move(pool.device, 0 - pool.reserved);
  move(device, reserved);
  pool.device = device;
  pool.reserved = reserved;
}

void PoolReserves::on_event(const PoolEvent& event) {
  const Id id = id_of(event.pool);
  Pool& pool = pools_[id];
  if (event.event != GPUPEAK_POOL_DESTROYED) return change(pool, event.device, event.reserved);
  by_handle_.erase(event.pool);
  pool.destroyed = true;
  if (pool.blocks > 0) return;
  change(pool, pool.device, 0);
  pools_.erase(id);
}

PoolReserves::Id PoolReserves::allocated(uint64_t handle) {
  if (handle == 0) return kNone;
  const Id id = id_of(handle);
  ++pools_[id].blocks;
  return id;
}

void PoolReserves::freed(Id id) {
  const auto entry = pools_.find(id);
  if (entry == pools_.end() || entry->second.blocks == 0) return;
  Pool& pool = entry->second;
  if (--pool.blocks > 0 || !pool.destroyed) return;
  change(pool, pool.device, 0);
  pools_.erase(entry);
}

void PoolReserves::revived(Id id) {
  const auto entry = pools_.find(id);
  if (entry != pools_.end()) ++entry->second.blocks;
}

}  // namespace gpupeak::collector
