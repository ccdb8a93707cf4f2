#include "fake_c10_cuda.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kRound = 512, kSmallSegment = 2 * kMiB, kLargeSegment = 20 * kMiB;
constexpr uint64_t kLargestSmall = kMiB, kOwnSegment = 10 * kMiB;
constexpr uint64_t kAddresses = UINT64_C(1) << 32;
constexpr int kDevices = 2;

/// Blocks of one pool, small or large ones, by address; segments each of its own range, or handles
/// side by side in one.
struct Pool {
  bool small = false;
  std::map<uint64_t, uint64_t> free_blocks;  // address → bytes
  std::map<uint64_t, uint64_t> segments;     // not expandable
  uint64_t range = 0, mapped = 0;            // expandable
  std::map<uint64_t, std::pair<uint64_t, CUmemGenericAllocationHandle>> handles;  // by address
};
using PoolId = std::pair<int, bool>;  // small ones lie apart
struct Given {
  uint64_t bytes;
  PoolId pool;
};
struct DeviceAllocator {
  std::recursive_mutex lock;
  std::map<PoolId, Pool> pools;
  std::map<uint64_t, Given> given;
  FakeTorchLedger ledger{};
};

DeviceAllocator g_devices[kDevices];
bool g_expandable;
uint64_t g_limit = UINT64_MAX;  // of reserved bytes
FakeTorchObserver g_observer;
std::atomic<uint64_t> g_calls, g_failures, g_hash;
std::atomic<int64_t> g_bytes;

void report(int device, void* at, int64_t bytes) {
  const FakeTorchLedger& ledger = g_devices[device].ledger;
  const c10::Device where{1, static_cast<int8_t>(device)};
  uint64_t in_use = ledger.in_use, reserved = ledger.reserved;
#if FAKE_C10_ABI == 2
  in_use = reserved = 0;
#endif
  ++g_calls;
  g_bytes += bytes;
  g_hash += (reinterpret_cast<uint64_t>(at) ^ static_cast<uint64_t>(bytes) * 3 ^ in_use * 5 ^
             reserved * 7 ^ static_cast<uint64_t>(device) * 11 ^ UINT64_C(13)) *
            UINT64_C(0x9e3779b97f4a7c15);
#if FAKE_C10_ABI == 0
  c10::reportMemoryUsageToProfiler(at, bytes, in_use, reserved, where);
#elif FAKE_C10_ABI == 1
  c10::reportMemoryUsageToProfiler(at, bytes, static_cast<int64_t>(in_use),
                                   static_cast<int64_t>(reserved), where);
#else
  c10::reportMemoryUsageToProfiler(at, bytes, where);
#endif
}

void report_failure(int device, uint64_t bytes) {
  FakeTorchLedger& ledger = g_devices[device].ledger;
  ++ledger.failed;
  // PyTorch tries for long before it says so: longer than a step takes.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
#if FAKE_C10_ABI == 0
  ++g_failures;
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), ledger.in_use, ledger.reserved,
                                   {1, static_cast<int8_t>(device)});
#elif FAKE_C10_ABI == 1
  ++g_failures;
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), static_cast<int64_t>(ledger.in_use),
                                   static_cast<int64_t>(ledger.reserved),
                                   {1, static_cast<int8_t>(device)});
#else
  static_cast<void>(bytes);
#endif
}

void use(int device) {
  cuInit(0);
  CUcontext context;
  cuDevicePrimaryCtxRetain(&context, device);
  cuCtxSetCurrent(context);
}

/// The smallest free block that is large enough, of equal ones the lowest; with its bytes, which
/// are more than asked for where the rest is too little to be split off. 0: there is none. What can
/// grow counts as larger than all others.
std::pair<uint64_t, uint64_t> take_free(Pool& pool, uint64_t bytes) {
  const auto size_of = [&](const auto& block) {
    const bool grows = g_expandable && block.first + block.second == pool.range + pool.mapped;
    return grows ? kAddresses : block.second;
  };
  auto best = pool.free_blocks.end();
  for (auto block = pool.free_blocks.begin(); block != pool.free_blocks.end(); ++block) {
    if (block->second < bytes) continue;
    if (best == pool.free_blocks.end() || size_of(*block) < size_of(*best)) best = block;
  }
  if (best == pool.free_blocks.end()) return {0, 0};
  const auto [address, size] = *best;
  const uint64_t rest = size - bytes;
  const bool split = pool.small || g_expandable ? rest >= kRound : rest > kLargestSmall;
  pool.free_blocks.erase(best);
  if (!split) return {address, size};
  pool.free_blocks[address + bytes] = rest;
  return {address, bytes};
}

bool same_segment(const Pool& pool, uint64_t a, uint64_t b) {
  if (pool.range != 0) return true;
  const auto of = [&](uint64_t at) { return std::prev(pool.segments.upper_bound(at))->first; };
  return of(a) == of(b);
}

void put_free(Pool& pool, uint64_t address, uint64_t bytes) {
  auto next = pool.free_blocks.lower_bound(address);
  if (next != pool.free_blocks.end() && address + bytes == next->first &&
      same_segment(pool, address, next->first)) {
    bytes += next->second;
    next = pool.free_blocks.erase(next);
  }
  if (next != pool.free_blocks.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address && same_segment(pool, before->first, address)) {
      before->second += bytes;
      return;
    }
  }
  pool.free_blocks[address] = bytes;
}

bool grow(int device, Pool& pool, uint64_t bytes) {
  FakeTorchLedger& ledger = g_devices[device].ledger;
  const uint64_t unit = pool.small ? kSmallSegment : kLargeSegment;
  uint64_t size = (bytes + unit - 1) / unit * unit;
  if (!g_expandable && bytes >= kOwnSegment) {
    size = (bytes + kSmallSegment - 1) / kSmallSegment * kSmallSegment;
  }
  if (ledger.reserved + size > g_limit) return false;
  if (!g_expandable) {
    CUdeviceptr at;
    if (cuMemAlloc(&at, size) != CUDA_SUCCESS) return false;
    pool.segments[at] = size;
    put_free(pool, at, size);
    ledger.reserved += size;
    return true;
  }
  if (pool.range == 0) {
    CUdeviceptr range;
    if (cuMemAddressReserve(&range, kAddresses, 0, 0, 0) != CUDA_SUCCESS) return false;
    pool.range = range;
  }
  uint64_t tail = 0;  // free bytes at the end, which the new ones go on
  if (!pool.free_blocks.empty()) {
    const auto last = std::prev(pool.free_blocks.end());
    if (last->first + last->second == pool.range + pool.mapped) tail = last->second;
  }
  // PyTorch maps into the holes that were unmapped too; ours only appends.
  const uint64_t mapped_before = pool.mapped;
  const auto give_up = [&] {
    for (uint64_t at = pool.range + mapped_before; at < pool.range + pool.mapped; at += unit) {
      cuMemUnmap(at, unit);
      cuMemRelease(pool.handles[at].second);
      pool.handles.erase(at);
      ledger.reserved -= unit;
    }
    const uint64_t end = pool.range + mapped_before;
    auto last = pool.free_blocks.lower_bound(end);
    if (last != pool.free_blocks.begin()) {
      last = std::prev(last);
      if (last->first + last->second > end) last->second = end - last->first;
      if (last->second == 0) pool.free_blocks.erase(last);
    }
    pool.free_blocks.erase(pool.free_blocks.lower_bound(end), pool.free_blocks.end());
    pool.mapped = mapped_before;
    return false;
  };
  for (uint64_t need = bytes - std::min(tail, bytes); need > 0;) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemGenericAllocationHandle handle;
    if (cuMemCreate(&handle, unit, &properties, 0) != CUDA_SUCCESS) return give_up();
    const uint64_t at = pool.range + pool.mapped;
    if (cuMemMap(at, unit, 0, handle, 0) != CUDA_SUCCESS) {
      cuMemRelease(handle);
      return give_up();
    }
    pool.handles[at] = {unit, handle};
    pool.mapped += unit;
    put_free(pool, at, unit);
    ledger.reserved += unit;
    need -= std::min(need, unit);
  }
  return true;
}

void empty_cache(int device) {
  DeviceAllocator& allocator = g_devices[device];
  const std::lock_guard guard(allocator.lock);
  use(device);
  for (auto& [id, pool] : allocator.pools) {
    for (auto segment = pool.segments.begin(); segment != pool.segments.end();) {
      const auto block = pool.free_blocks.find(segment->first);
      if (block == pool.free_blocks.end() || block->second != segment->second) {
        ++segment;
        continue;
      }
      cuMemFree(segment->first);
      allocator.ledger.reserved -= segment->second;
      pool.free_blocks.erase(block);
      segment = pool.segments.erase(segment);
    }
    for (auto handle = pool.handles.begin(); handle != pool.handles.end();) {
      const auto [at, size] = std::pair{handle->first, handle->second.first};
      auto block = pool.free_blocks.upper_bound(at);
      const bool idle = block != pool.free_blocks.begin() &&
                        (--block, block->first <= at && block->first + block->second >= at + size);
      if (!idle) {
        ++handle;
        continue;
      }
      const auto [begin, bytes] = *block;
      pool.free_blocks.erase(block);
      if (begin < at) pool.free_blocks[begin] = at - begin;
      if (begin + bytes > at + size) pool.free_blocks[at + size] = begin + bytes - at - size;
      cuMemUnmap(at, size);
      cuMemRelease(handle->second.second);
      allocator.ledger.reserved -= size;
      handle = pool.handles.erase(handle);
    }
  }
  g_observer(device, allocator.ledger);
}

void* give(int device, int id, size_t bytes) {
  DeviceAllocator& allocator = g_devices[device];
  const std::lock_guard guard(allocator.lock);
  use(device);
  FakeTorchLedger& ledger = allocator.ledger;
  const uint64_t rounded = std::max<uint64_t>((bytes + kRound - 1) / kRound * kRound, kRound);
  const PoolId place{id, rounded <= kLargestSmall};
  Pool& pool = allocator.pools[place];
  pool.small = place.second;
  auto [at, size] = take_free(pool, rounded);
  if (at == 0 && grow(device, pool, rounded)) std::tie(at, size) = take_free(pool, rounded);
  if (at == 0) {
    empty_cache(device);
    if (grow(device, pool, rounded)) std::tie(at, size) = take_free(pool, rounded);
  }
  ledger.peak_reserved = std::max(ledger.peak_reserved, ledger.reserved);
  if (at == 0) {
    report_failure(device, rounded);
    g_observer(device, ledger);
    return nullptr;
  }
  allocator.given[at] = {size, place};
  ledger.in_use += size;
  ++ledger.given;
  ledger.peak_in_use = std::max(ledger.peak_in_use, ledger.in_use);
  try {
    report(device, reinterpret_cast<void*>(at), static_cast<int64_t>(size));
  } catch (...) {
    g_observer(device, ledger);
    throw;
  }
  g_observer(device, ledger);
  return reinterpret_cast<void*>(at);
}

void take(int device, void* at) {
  DeviceAllocator& allocator = g_devices[device];
  const std::lock_guard guard(allocator.lock);
  const auto block = allocator.given.find(reinterpret_cast<uint64_t>(at));
  const auto [bytes, id] = block->second;
  allocator.given.erase(block);
  put_free(allocator.pools[id], reinterpret_cast<uint64_t>(at), bytes);
  allocator.ledger.in_use -= bytes;
  report(device, at, -static_cast<int64_t>(bytes));
  g_observer(device, allocator.ledger);
}

void for_each_block(FakeTorchVisit visit) {
  for (int device = 0; device < kDevices; ++device) {
    for (const auto& [at, block] : g_devices[device].given) visit(device, at, block.bytes);
  }
}

void init(bool expandable, FakeTorchObserver observer) {
  g_expandable = expandable;
  g_observer = observer;
}

}  // namespace

const FakeTorch* fake_torch() {
  static const FakeTorch table{init,
                               give,
                               take,
                               empty_cache,
                               for_each_block,
                               fake_c10_calls,
                               [] {
                                 return FakeC10Calls{g_calls, g_failures, g_bytes, g_hash};
                               },
                               fake_c10_throw_once,
                               [](uint64_t bytes) { g_limit = bytes; }};
  return &table;
}
