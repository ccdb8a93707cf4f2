#include "track/memory_pools.h"

#include "base/hash_tables.h"
#include "base/hook_scope.h"
#include "base/lock.h"
#include "log/log.h"
#include "thread/emit.h"
#include "track/device_book.h"

namespace gpupeak::preload {
namespace {

constinit FlatMap<PoolState> g_pools;                 // under the book's lock
constinit std::atomic<uint64_t> g_reserved_bytes{0};  // in all pools, as logged last

void log_pool(const PoolPlace& place, uint64_t reserved_bytes, uint64_t used_bytes,
              gpupeak_pool_event event) {
  emit(numbered(GPUPEAK_REC_POOL, address_of(place.pool), logged_device(place.device),
                reserved_bytes, used_bytes, event));
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

struct Reserve {
  uint64_t turn = 0;    ///< turn of the latest reading that was entered here
  uint64_t bytes = 0;   ///< as read then
  uint32_t blocks = 0;  ///< numbered from 1; the last one is freed first
};
constinit Reserve g_reserves[GPUPEAK_LOG_MAX_DEVICES];  // under the book's lock
constinit std::atomic<uint64_t> g_turns{0};             // readings begun
constinit std::atomic<bool> g_has_graphs{false};

uint64_t graph_block(int device, uint32_t number) {
  return static_cast<uint64_t>(device) << 32 | number;
}

/// Whether a reading has a new figure. If not, only its turn is noted, which needs no stack.
bool is_news(Reserve& reserve, uint64_t turn, uint64_t bytes) {
  const BookGuard guard;
  if (!guard) return false;
  if (reserve.turn > turn) return false;
  if (reserve.bytes != bytes) return true;
  reserve.turn = turn;
  return false;
}

/// A stream that is being captured, and the thread that takes memory for the capture; 0: any
/// thread.
struct Capture {
  std::atomic<uintptr_t> stream{0};  ///< + 1, since the default stream is null; 0: free
  std::atomic<uintptr_t> thread{0};
};
constexpr size_t kMostCaptures = 16;  // blocks of further captures have no mark
constinit Capture g_captures[kMostCaptures];

uintptr_t key_of(CUstream stream) {
  return reinterpret_cast<uintptr_t>(stream) + 1;
}
/// A number that no other live thread has: the address of its flags.
uintptr_t this_thread() {
  return reinterpret_cast<uintptr_t>(&t_flags);
}

}  // namespace

void pool_created(const PoolPlace& place) {
  const InBook book;
  if (!book) return;
  g_pools.insert(address_of(place.pool), {.place = place});
  log_pool(place, 0, 0, GPUPEAK_POOL_CREATED);
}

PoolState pool_destroying(CUmemoryPool pool) {
  const InBook book;
  if (!book || pool == nullptr) return {};
  const PoolState* known = g_pools.find(address_of(pool));
  if (known == nullptr) return {};
  const PoolState state = *known;
  g_pools.erase(address_of(pool));
  return state;
}

void pool_destroyed(const PoolState& state, bool done) {
  const InBook book;
  if (!book || state.place.pool == nullptr) return;
  if (!done) {
    g_pools.insert(address_of(state.place.pool), state);
    return;
  }
  g_reserved_bytes -= state.reserved_bytes;
  log_pool(state.place, 0, 0, GPUPEAK_POOL_DESTROYED);
}

PoolPlace pool_place(CUmemoryPool pool, int device) {
  const InBook book;
  if (!book || pool == nullptr) return {.pool = pool, .device = device};
  if (const PoolState* known = g_pools.find(address_of(pool))) return known->place;
  const PoolState fresh{.place = {.pool = pool, .device = device}};
  g_pools.insert(address_of(pool), fresh);
  return fresh.place;
}

bool pool_allocated(const ApiCall& call, uint64_t value, uint64_t bytes, CUmemoryPool pool,
                    int device, uint64_t reserved_bytes) {
  const BookSite site(call, device);
  if (!site) return false;
  const PoolState* const known = g_pools.find(address_of(pool));
  const PoolState state = known != nullptr ? *known : PoolState{.place = {pool, device}};
  if (__builtin_expect(known == nullptr, 0)) g_pools.insert(address_of(pool), state);
  add_block(KeySpace::kPointer, value,
            {.bytes = bytes, .pool = pool, .device = state.place.device, .kind = state.place.kind},
            site.api, site.stack);
  return state.reserved_bytes != reserved_bytes;
}

void pool_read(CUmemoryPool pool) {
  const InBook book;
  if (!book) return;
  if (PoolState* known = g_pools.find(address_of(pool))) read_reserve(*known);
}

void read_all_pools() {
  if (g_reserved_bytes.load(std::memory_order_relaxed) == 0) return;
  const InBook book;
  if (!book) return;
  g_pools.for_each([](uint64_t, PoolState& state) {
    if (state.reserved_bytes != 0) read_reserve(state);
  });
}

void forget_pools() {
  g_pools.forget();
  g_reserved_bytes = 0;
}

bool has_graph_memory() {
  return g_has_graphs.load(std::memory_order_relaxed);
}

void graph_reserve_read(const ApiCall& call, int device) {
  HookScope scope;
  if (!scope.entered() || !has_counters(device)) return;
  introduce_device(device);
  // Each call that changes the reserve reads it afterwards. So the reading that began last has seen
  // all changes, and an earlier reading that comes here later is dropped. The driver is asked, and
  // the stack captured (which may ask the loader), without the lock.
  const uint64_t turn = g_turns.fetch_add(1, std::memory_order_acq_rel) + 1;
  const uint64_t reserved_bytes = graph_reserve(device);
  Reserve& reserve = g_reserves[device];
  if (!is_news(reserve, turn, reserved_bytes)) return;
  const uint32_t api = api_of(call);
  const uint32_t stack = capture_call_site(call.caller);
  const BookGuard guard;
  if (!guard) return;
  if (reserve.turn > turn) return;
  reserve.turn = turn;
  while (reserve.bytes > reserved_bytes && reserve.blocks > 0) {
    const uint64_t key = key_of(KeySpace::kGraphReserve, graph_block(device, reserve.blocks--));
    if (const DeviceBlock* block = g_book.blocks.find(key)) {
      reserve.bytes -= block->bytes;
      log_free(*block, api, stack);
      g_book.blocks.erase(key);
    }
  }
  if (reserve.bytes >= reserved_bytes) return;
  add_block(KeySpace::kGraphReserve, graph_block(device, ++reserve.blocks),
            {.bytes = reserved_bytes - reserve.bytes, .device = device, .kind = GPUPEAK_KIND_GRAPH},
            api, stack);
  reserve.bytes = reserved_bytes;
}

void note_graph_memory() {
  g_has_graphs.store(true, std::memory_order_relaxed);
}

void forget_graph_memory() {
  for (Reserve& reserve : g_reserves) reserve = {};
  g_has_graphs = false;
}

constinit std::atomic<uint32_t> g_open_captures{0};

void capture_began(CUstream stream, bool of_all_threads) {
  for (Capture& capture : g_captures) {
    uintptr_t free = 0;
    if (!capture.stream.compare_exchange_strong(free, key_of(stream))) continue;
    capture.thread.store(of_all_threads ? 0 : this_thread(), std::memory_order_relaxed);
    g_open_captures.fetch_add(1, std::memory_order_release);
    return;
  }
}

void capture_ended(CUstream stream) {
  for (Capture& capture : g_captures) {
    uintptr_t key = key_of(stream);
    if (!capture.stream.compare_exchange_strong(key, 0)) continue;
    g_open_captures.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
}

bool is_captured_here() {
  for (const Capture& capture : g_captures) {
    if (capture.stream.load(std::memory_order_relaxed) == 0) continue;
    const uintptr_t thread = capture.thread.load(std::memory_order_relaxed);
    if (thread == 0 || thread == this_thread()) return true;
  }
  return false;
}

void forget_captures() {
  for (Capture& capture : g_captures) capture.stream = 0;
  g_open_captures = 0;
}

}  // namespace gpupeak::preload
