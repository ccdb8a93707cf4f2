#include "track/memory_pools.h"

#include <atomic>

#include "base/hash_tables.h"
#include "base/hook_scope.h"
#include "base/lock.h"
#include "log/log.h"
#include "thread/emit.h"
#include "track/device_book.h"
#include "track/driver.h"

namespace gpupeak::preload {
namespace {

constinit FlatMap<PoolState> g_pools;                 // under the book's lock
constinit std::atomic<uint64_t> g_reserved_bytes{0};  // in all pools, as logged last

uint64_t pool_key(CUmemoryPool pool) {
  return reinterpret_cast<uint64_t>(pool);
}

void log_pool(const PoolPlace& place, uint64_t reserved_bytes, uint64_t used_bytes,
              gpupeak_pool_event event) {
  Record record = numbered(GPUPEAK_REC_POOL);
  emit(record.u(pool_key(place.pool))
           .u(logged_device(place.device))
           .u(reserved_bytes)
           .u(used_bytes)
           .u(event));
}

/// Asks what the pool reserves, and logs it if it has changed. The caller holds the lock meanwhile,
/// so that no pool is destroyed before it is asked, and no answer is logged after a newer one.
void read_reserve(PoolState& state) {
  const uint64_t reserved = pool_attribute(state.place.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  if (reserved == state.reserved_bytes) return;
  g_reserved_bytes += reserved - state.reserved_bytes;
  state.reserved_bytes = reserved;
  log_pool(state.place, reserved,
           pool_attribute(state.place.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), GPUPEAK_POOL_READ);
}

}  // namespace

void pool_created(const PoolPlace& place) {
  HookScope scope;
  if (!scope.entered()) return;
  const BookGuard guard;
  if (!guard) return;
  g_pools.insert(pool_key(place.pool), {.place = place});
  log_pool(place, 0, 0, GPUPEAK_POOL_CREATED);
}

PoolState pool_destroying(CUmemoryPool pool) {
  HookScope scope;
  if (!scope.entered() || pool == nullptr) return {};
  const BookGuard guard;
  if (!guard) return {};
  const PoolState* known = g_pools.find(pool_key(pool));
  if (known == nullptr) return {};
  const PoolState state = *known;
  g_pools.erase(pool_key(pool));
  return state;
}

void pool_destroyed(const PoolState& state) {
  HookScope scope;
  if (!scope.entered() || state.place.pool == nullptr) return;
  const BookGuard guard;
  if (!guard) return;
  g_reserved_bytes -= state.reserved_bytes;
  log_pool(state.place, 0, 0, GPUPEAK_POOL_DESTROYED);
}

void pool_not_destroyed(const PoolState& state) {
  HookScope scope;
  if (!scope.entered() || state.place.pool == nullptr) return;
  const BookGuard guard;
  if (!guard) return;
  g_pools.insert(pool_key(state.place.pool), state);
}

PoolPlace pool_place(CUmemoryPool pool, int device) {
  HookScope scope;
  if (!scope.entered() || pool == nullptr) return {.pool = pool, .device = device};
  const BookGuard guard;
  if (!guard) return {.pool = pool, .device = device};
  if (const PoolState* known = g_pools.find(pool_key(pool))) return known->place;
  const PoolState fresh{.place = {.pool = pool, .device = device}};
  g_pools.insert(pool_key(pool), fresh);
  return fresh.place;
}

bool pool_allocated(const ApiCall& call, uint64_t value, uint64_t bytes, CUmemoryPool pool,
                    int device, uint64_t reserved_bytes) {
  HookScope scope;
  if (!scope.entered()) {
    count(&gpupeak_counters_page::dropped_events);
    return false;
  }
  introduce_device(device);
  const uint32_t api = api_of(call);
  const uint32_t stack = capture_call_site(call.caller);
  const BookGuard guard;
  if (!guard) return false;
  const PoolState* const known = g_pools.find(pool_key(pool));
  const PoolState state = known != nullptr ? *known : PoolState{.place = {pool, device}};
  if (__builtin_expect(known == nullptr, 0)) g_pools.insert(pool_key(pool), state);
  add_block(
      KeySpace::kPointer, value,
      {.bytes = bytes, .pool = pool, .device = state.place.device, .kind = state.place.kind}, api,
      stack);
  return state.reserved_bytes != reserved_bytes;
}

void pool_read(CUmemoryPool pool) {
  HookScope scope;
  if (!scope.entered()) return;
  const BookGuard guard;
  if (!guard) return;
  if (PoolState* known = g_pools.find(pool_key(pool))) read_reserve(*known);
}

void read_all_pools() {
  if (g_reserved_bytes.load(std::memory_order_relaxed) == 0) return;
  HookScope scope;
  if (!scope.entered()) return;
  const BookGuard guard;
  if (!guard) return;
  g_pools.for_each([](uint64_t, PoolState& state) {
    if (state.reserved_bytes != 0) read_reserve(state);
  });
}

void forget_pools() {
  g_pools.forget();
  g_reserved_bytes = 0;
}

}  // namespace gpupeak::preload
