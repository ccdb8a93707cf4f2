#include "track/device_memory.h"

#include <atomic>

#include "base/flat_map.h"
#include "base/hook_scope.h"
#include "base/spinlock.h"
#include "log/log.h"
#include "track/driver.h"

namespace gpupeak::preload {
namespace {

/// All of it under the lock.
struct DeviceMemory {
  SpinLock lock;
  FlatMap<DeviceBlock> blocks;
  FlatMap<PoolState> pools;
  FlatMap<int> contexts;  ///< to their devices
  FlatMap<int> green_contexts;
  struct GraphReserve {
    uint64_t bytes = 0;
    uint32_t blocks = 0;  ///< numbered from 1; the latest is given back first
  } graphs[GPUPEAK_LOG_MAX_DEVICES];
  uint64_t read_at[GPUPEAK_LOG_MAX_DEVICES] = {};  ///< tracked bytes at the highest reading
  std::atomic<uint32_t> readings[GPUPEAK_LOG_MAX_DEVICES] = {};
  std::atomic<bool> has_graphs{false};
  std::atomic<uint64_t> pool_bytes{0};  ///< reserved in all pools, as logged last
  uint64_t next_id = 1;
  uint64_t next_seq = 1;
};
constinit DeviceMemory g_memory;

/// device or host, as the log has it.
uint64_t logged_device(int device) {
  return static_cast<uint64_t>(device + 1);
}

bool counts_into_device_total(gpupeak_kind kind) {
  switch (kind) {
    case GPUPEAK_KIND_LINEAR:
    case GPUPEAK_KIND_POOL:
    case GPUPEAK_KIND_VMM:
    case GPUPEAK_KIND_ARRAY:
    case GPUPEAK_KIND_GRAPH:
      return true;
    default:
      return false;
  }
}

/// The lock makes us the only writer of these: others read, so that whole stores are enough.
void store(uint64_t& to, uint64_t value) {
  __atomic_store_n(&to, value, __ATOMIC_RELAXED);
}

void move(gpupeak_gauge& gauge, int64_t bytes) {
  const uint64_t live = gauge.live + static_cast<uint64_t>(bytes);
  store(gauge.live, live);
  if (live > gauge.peak) store(gauge.peak, live);
}

void move_gauges(const DeviceBlock& block, int64_t bytes) {
  gpupeak_counters_page& page = counters();
  switch (block.kind) {
    case GPUPEAK_KIND_PINNED:
    case GPUPEAK_KIND_HOST_VMM:
      move(page.pinned, bytes);
      return;
    case GPUPEAK_KIND_REGISTERED:
      move(page.registered, bytes);
      return;
    case GPUPEAK_KIND_MANAGED:
      move(page.managed, bytes);
      break;
    default:
      break;
  }
  if (block.device < 0 || block.device >= static_cast<int>(GPUPEAK_LOG_MAX_DEVICES)) return;
  gpupeak_device_counters& device = page.device[block.device];
  move(device.kind[block.kind - GPUPEAK_FIRST_DEVICE_KIND], bytes);
  if (!counts_into_device_total(block.kind)) return;
  move(device.total, bytes);
  const uint64_t read_at = g_memory.read_at[block.device];
  if (device.total.live > read_at + read_at / 1024) g_unread_peaks |= 1u << block.device;
}

uint32_t api_of(const ApiCall& call) {
  uint32_t id = __atomic_load_n(call.string_id, __ATOMIC_RELAXED);
  if (id == 0) {
    id = intern_string(call.name);
    __atomic_store_n(call.string_id, id, __ATOMIC_RELAXED);
  }
  return id;
}

/// Emits with the next number. Holds the lock.
Record numbered(uint8_t tag) {
  Record record(tag);
  record.u(g_memory.next_seq++);
  store(counters().device_events, counters().device_events + 1);
  return record;
}

void log_free(const DeviceBlock& block, uint32_t api, uint32_t stack) {
  if (block.id == 0) return;
  move_gauges(block, -static_cast<int64_t>(block.bytes));
  emit(numbered(GPUPEAK_REC_DEVICE_FREE).u(block.id).u(api).u(stack));
}

/// Adds a block in place of what may have been there: then the old one's end was not seen. Holds
/// the lock.
bool keep(uint64_t key, const DeviceBlock& block, uint32_t api, uint32_t stack) {
  if (DeviceBlock* stale = g_memory.blocks.find(key)) {
    if (stale->kind == GPUPEAK_KIND_IMPORTED && block.kind == GPUPEAK_KIND_IMPORTED) {
      ++stale->opens;
      return false;
    }
    log_free(*stale, api, stack);
  }
  if (g_memory.blocks.insert(key, block)) return true;
  set_quality(GPUPEAK_Q_DEVICE_TABLE_FULL);
  count(&gpupeak_counters_page::dropped_events);
  return false;
}

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

/// Asks and logs, if it has moved. Holds the lock over the question, so that no pool is destroyed
/// before it is asked, and no answer is logged after a newer one.
void read_reserve(PoolState& state) {
  const uint64_t reserved = pool_attribute(state.place.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  if (reserved == state.reserved_bytes) return;
  g_memory.pool_bytes += reserved - state.reserved_bytes;
  state.reserved_bytes = reserved;
  log_pool(state.place, reserved,
           pool_attribute(state.place.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), GPUPEAK_POOL_READ);
}

/// Counts and logs a new block. Holds the lock.
void add(KeySpace space, uint64_t value, DeviceBlock block, uint32_t api, uint32_t stack) {
  block.id = g_memory.next_id++;
  if (!keep(key_of(space, value), block, api, stack)) return;
  move_gauges(block, static_cast<int64_t>(block.bytes));
  if (block.device >= 0 && block.device < static_cast<int>(GPUPEAK_LOG_MAX_DEVICES)) {
    uint64_t& allocations = counters().device[block.device].alloc_count;
    store(allocations, allocations + 1);
  }
  Record record = numbered(GPUPEAK_REC_DEVICE_ALLOC);
  record.u(block.id)
      .u(block.kind)
      .u(logged_device(block.device))
      .u(value)
      .u(block.bytes)
      .u(api)
      .u(stack);
  emit(record.u(reinterpret_cast<uint64_t>(block.context))
           .u(reinterpret_cast<uint64_t>(block.pool)));
}

uint64_t graph_block(int device, uint32_t number) {
  return static_cast<uint64_t>(device) << 32 | number;
}

int device_in(FlatMap<int>& contexts, const void* context) {
  HookScope scope;
  if (!scope.entered()) return kNoDevice;
  LockGuard guard(g_memory.lock);
  const int* known = contexts.find(reinterpret_cast<uint64_t>(context));
  return known != nullptr ? *known : kNoDevice;
}

bool ends_with_context(gpupeak_kind kind) {
  switch (kind) {
    case GPUPEAK_KIND_LINEAR:
    case GPUPEAK_KIND_MANAGED:
    case GPUPEAK_KIND_PINNED:
    case GPUPEAK_KIND_REGISTERED:
    case GPUPEAK_KIND_ARRAY:
      return true;
    default:
      return false;
  }
}

}  // namespace

constinit std::atomic<uint32_t> g_unread_peaks{0};

void device_allocated(const ApiCall& call, KeySpace space, uint64_t value, DeviceBlock block) {
  HookScope scope;
  if (!scope.entered()) return count(&gpupeak_counters_page::dropped_events);
  introduce_device(block.device);
  const uint32_t api = api_of(call);
  const uint32_t stack = capture_call_site(call.caller);
  LockGuard guard(g_memory.lock);
  add(space, value, block, api, stack);
}

void device_noted(KeySpace space, uint64_t value, DeviceBlock block) {
  HookScope scope;
  if (!scope.entered()) return count(&gpupeak_counters_page::dropped_events);
  LockGuard guard(g_memory.lock);
  block.id = 0;
  if (block.kind == GPUPEAK_KIND_GRAPH) g_memory.has_graphs = true;
  keep(key_of(space, value), block, 0, 0);
}

bool device_freeing(const ApiCall& call, KeySpace space, uint64_t value, DeviceBlock& block) {
  HookScope scope;
  if (!scope.entered()) return false;
  const uint32_t api = api_of(call);
  const uint32_t stack = capture_stack(call.caller);
  LockGuard guard(g_memory.lock);
  DeviceBlock* known = g_memory.blocks.find(key_of(space, value));
  if (known == nullptr) return false;
  block = *known;
  if (known->id == 0) return true;
  if (known->opens > 1) {
    --known->opens;
    return true;
  }
  g_memory.blocks.erase(key_of(space, value));
  log_free(block, api, stack);
  return true;
}

void device_not_freed(KeySpace space, uint64_t value, const DeviceBlock& block) {
  HookScope scope;
  if (!scope.entered()) return;
  if (block.id == 0) return;
  LockGuard guard(g_memory.lock);
  if (!g_memory.blocks.insert(key_of(space, value), block) || block.opens > 1) return;
  move_gauges(block, static_cast<int64_t>(block.bytes));
  emit(numbered(GPUPEAK_REC_DEVICE_REVIVE).u(block.id));
}

bool device_find(KeySpace space, uint64_t value, DeviceBlock& block) {
  HookScope scope;
  if (!scope.entered()) return false;
  LockGuard guard(g_memory.lock);
  const DeviceBlock* known = g_memory.blocks.find(key_of(space, value));
  if (known != nullptr) block = *known;
  return known != nullptr;
}

void device_unknown_freed(const ApiCall& call, uint64_t value) {
  HookScope scope;
  if (!scope.entered()) return;
  const uint32_t api = api_of(call);
  const uint32_t stack = capture_stack(call.caller);
  LockGuard guard(g_memory.lock);
  count(&gpupeak_counters_page::unmatched_frees);
  emit(numbered(GPUPEAK_REC_DEVICE_UNKNOWN).u(value).u(api).u(stack));
}

void device_failed(const ApiCall& call, gpupeak_kind kind, int device, uint64_t bytes,
                   CUresult result) {
  // Other errors may come from a capture that forbids the call: ask the driver nothing then.
  uint64_t free_bytes = 0, total_bytes = 0;
  const bool known = result == CUDA_ERROR_OUT_OF_MEMORY && memory_info(free_bytes, total_bytes);
  HookScope scope;
  if (!scope.entered()) return;
  introduce_device(device);
  const uint32_t api = api_of(call);
  const uint32_t stack = capture_call_site(call.caller);
  LockGuard guard(g_memory.lock);
  const bool counted = device >= 0 && device < static_cast<int>(GPUPEAK_LOG_MAX_DEVICES);
  Record record = numbered(GPUPEAK_REC_DEVICE_FAILED);
  record.u(kind).u(logged_device(device)).u(bytes).u(result);
  record.u(counted ? counters().device[device].total.live : 0);
  record.u(known ? free_bytes + 1 : 0).u(known ? total_bytes + 1 : 0);
  emit(record.u(api).u(stack));
}

void context_began(CUcontext context, int device) {
  HookScope scope;
  if (!scope.entered()) return;
  introduce_device(device);
  LockGuard guard(g_memory.lock);
  g_memory.contexts.insert(reinterpret_cast<uint64_t>(context), device);
  Record record = numbered(GPUPEAK_REC_CONTEXT);
  emit(record.u(reinterpret_cast<uint64_t>(context))
           .u(logged_device(device))
           .u(GPUPEAK_CONTEXT_CREATED));
}

void context_ended(const ApiCall& call, CUcontext context, gpupeak_context_event event) {
  HookScope scope;
  if (!scope.entered() || context == nullptr) return;
  const uint32_t api = api_of(call);
  const uint32_t stack = capture_stack(call.caller);
  LockGuard guard(g_memory.lock);
  for (;;) {
    uint64_t keys[64];  // a batch at a time: erasing moves entries
    size_t n = 0;
    g_memory.blocks.for_each([&](uint64_t key, const DeviceBlock& block) {
      if (n < 64 && block.context == context && ends_with_context(block.kind)) keys[n++] = key;
    });
    for (size_t i = 0; i < n; ++i) {
      log_free(*g_memory.blocks.find(keys[i]), api, stack);
      g_memory.blocks.erase(keys[i]);
    }
    if (n < 64) break;
  }
  const int* known = g_memory.contexts.find(reinterpret_cast<uint64_t>(context));
  const int device = known != nullptr ? *known : kNoDevice;
  g_memory.contexts.erase(reinterpret_cast<uint64_t>(context));
  Record record = numbered(GPUPEAK_REC_CONTEXT);
  emit(record.u(reinterpret_cast<uint64_t>(context)).u(logged_device(device)).u(event));
}

void pool_created(const PoolPlace& place) {
  HookScope scope;
  if (!scope.entered()) return;
  LockGuard guard(g_memory.lock);
  g_memory.pools.insert(pool_key(place.pool), {.place = place});
  log_pool(place, 0, 0, GPUPEAK_POOL_CREATED);
}

PoolState pool_destroying(CUmemoryPool pool) {
  HookScope scope;
  if (!scope.entered() || pool == nullptr) return {};
  LockGuard guard(g_memory.lock);
  const PoolState* known = g_memory.pools.find(pool_key(pool));
  if (known == nullptr) return {};
  const PoolState state = *known;
  g_memory.pools.erase(pool_key(pool));
  return state;
}

void pool_destroyed(const PoolState& state) {
  HookScope scope;
  if (!scope.entered() || state.place.pool == nullptr) return;
  LockGuard guard(g_memory.lock);
  g_memory.pool_bytes -= state.reserved_bytes;
  log_pool(state.place, 0, 0, GPUPEAK_POOL_DESTROYED);
}

void pool_not_destroyed(const PoolState& state) {
  HookScope scope;
  if (!scope.entered() || state.place.pool == nullptr) return;
  LockGuard guard(g_memory.lock);
  g_memory.pools.insert(pool_key(state.place.pool), state);
}

PoolPlace pool_place(CUmemoryPool pool, int device) {
  HookScope scope;
  if (!scope.entered() || pool == nullptr) return {.pool = pool, .device = device};
  LockGuard guard(g_memory.lock);
  if (const PoolState* known = g_memory.pools.find(pool_key(pool))) return known->place;
  const PoolState fresh{.place = {.pool = pool, .device = device}};
  g_memory.pools.insert(pool_key(pool), fresh);
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
  LockGuard guard(g_memory.lock);
  const PoolState* known = g_memory.pools.find(pool_key(pool));
  if (known == nullptr && pool != nullptr) {
    g_memory.pools.insert(pool_key(pool), {.place = {.pool = pool, .device = device}});
    known = g_memory.pools.find(pool_key(pool));
  }
  const PoolState state = known != nullptr ? *known : PoolState{.place = {.device = device}};
  add(KeySpace::kPointer, value,
      {.bytes = bytes, .pool = pool, .device = state.place.device, .kind = state.place.kind}, api,
      stack);
  return known != nullptr && state.reserved_bytes != reserved_bytes;
}

void pool_read(CUmemoryPool pool) {
  HookScope scope;
  if (!scope.entered()) return;
  LockGuard guard(g_memory.lock);
  if (PoolState* known = g_memory.pools.find(pool_key(pool))) read_reserve(*known);
}

void read_all_pools() {
  if (g_memory.pool_bytes.load(std::memory_order_relaxed) == 0) return;
  HookScope scope;
  if (!scope.entered()) return;
  LockGuard guard(g_memory.lock);
  g_memory.pools.for_each([](uint64_t, PoolState& state) {
    if (state.reserved_bytes != 0) read_reserve(state);
  });
}

bool has_managed_memory() {
  return counters().managed.peak > 0;
}

bool has_graph_memory() {
  return g_memory.has_graphs.load(std::memory_order_relaxed);
}

void graph_reserve_read(const ApiCall& call, int device) {
  HookScope scope;
  if (!scope.entered() || device < 0 || device >= static_cast<int>(GPUPEAK_LOG_MAX_DEVICES)) return;
  introduce_device(device);
  LockGuard guard(g_memory.lock);
  const uint64_t reserved_bytes = graph_reserve(device);
  DeviceMemory::GraphReserve& reserve = g_memory.graphs[device];
  if (reserve.bytes == reserved_bytes) return;
  const uint32_t api = api_of(call);
  const uint32_t stack = capture_call_site(call.caller);
  while (reserve.bytes > reserved_bytes && reserve.blocks > 0) {
    const uint64_t key = key_of(KeySpace::kGraphReserve, graph_block(device, reserve.blocks--));
    if (const DeviceBlock* block = g_memory.blocks.find(key)) {
      reserve.bytes -= block->bytes;
      log_free(*block, api, stack);
      g_memory.blocks.erase(key);
    }
  }
  if (reserve.bytes >= reserved_bytes) return;
  add(KeySpace::kGraphReserve, graph_block(device, ++reserve.blocks),
      {.bytes = reserved_bytes - reserve.bytes, .device = device, .kind = GPUPEAK_KIND_GRAPH}, api,
      stack);
  reserve.bytes = reserved_bytes;
}

void log_driver_reading(const DriverReading& reading) {
  introduce_device(reading.device);
  const uint32_t api = reading.call != nullptr ? api_of(*reading.call) : 0;
  const uint32_t stack = reading.call != nullptr ? capture_stack(reading.call->caller) : 0;
  LockGuard guard(g_memory.lock);
  uint64_t& read_at = g_memory.read_at[reading.device];
  const uint64_t live = counters().device[reading.device].total.live;
  if (live > read_at) read_at = live;
  g_unread_peaks &= ~(1u << reading.device);
  // Another thread's reading that came in between may be the newer one.
  const bool overtaken = g_memory.readings[reading.device]++ != reading.earlier_readings;
  const bool uncertain = overtaken || DeviceCall::begun() != reading.quiet_since;
  Record record(GPUPEAK_REC_DRIVER_READING);
  record.u(logged_device(reading.device)).u(reading.used).u(reading.source).u(reading.cause);
  record.u(reading.reserved_plus_1).u(reading.own_plus_1).u(reading.others_plus_1);
  emit(record.u(reading.overlaps).u(uncertain).u(api).u(reading.name).u(stack));
}

uint32_t readings_logged(int device) {
  return g_memory.readings[device].load(std::memory_order_acquire);
}

void peak_is_not_readable(int device) {
  LockGuard guard(g_memory.lock);
  g_memory.read_at[device] = counters().device[device].total.peak;
  g_unread_peaks &= ~(1u << device);
}

int device_of_context(CUcontext context) {
  return device_in(g_memory.contexts, context);
}

int device_of_green_context(const void* green) {
  return device_in(g_memory.green_contexts, green);
}

void green_context_began(const void* green, int device) {
  HookScope scope;
  if (!scope.entered()) return;
  LockGuard guard(g_memory.lock);
  g_memory.green_contexts.insert(reinterpret_cast<uint64_t>(green), device);
}

void green_context_ended(const void* green) {
  HookScope scope;
  if (!scope.entered()) return;
  LockGuard guard(g_memory.lock);
  g_memory.green_contexts.erase(reinterpret_cast<uint64_t>(green));
}

void forget_device_memory() {
  g_memory.lock.reset();
  g_memory.blocks.forget();
  g_memory.pools.forget();
  g_memory.contexts.forget();
  g_memory.green_contexts.forget();
  for (auto& reserve : g_memory.graphs) reserve = {};
  g_memory.has_graphs = false;
  for (uint64_t& read_at : g_memory.read_at) read_at = 0;
  g_unread_peaks = 0;
  g_memory.pool_bytes = 0;
  g_memory.next_id = g_memory.next_seq = 1;
  forget_introductions();
}

}  // namespace gpupeak::preload
