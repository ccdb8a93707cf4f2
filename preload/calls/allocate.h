// The common part of the driver calls of all families: run the real function, then tell track/ what
// was allocated or freed. Templates, since the ABI versions of a call differ only in the width of
// integers. hooks/cuda.cc instantiates them for the rows of cuda_table.def. Each gets the real
// function and its arguments, and returns the real function's result, or out of memory if a limit
// refuses the call (track/limit.h). HOOK-SAFE.
//
//   mem_alloc(call, real, out, bytes)      one line in allocate.h, for cuMemAlloc and cuMemAlloc_v2
//     └ allocate(…)                        DriverScope → real(out, bytes) → device_allocated(…)
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "gpupeak/pages.h"
#include "track/device_memory.h"
#include "track/driver.h"
#include "track/driver_readings.h"
#include "track/ledger.h"
#include "track/limit.h"
#include "track/memory_pools.h"

namespace gpupeak::preload {

// A scope that is open while a thread is in a driver call. Only the outermost call is recorded: the
// driver calls its own entry points, and then our hooks run again inside. HOOK-SAFE.

class DriverScope : NoCopies {
 public:
  __attribute__((always_inline)) DriverScope() : outermost_(!is_open(arch::stack_pointer())) {
    if (outermost_) {
      t_flags.in_driver = arch::stack_pointer();
      if (__builtin_expect(t_flags.device_calls != 0, 0)) DeviceCall::end_left();
    }
    accounts_ = outermost_ && ensure_started_for_cuda();
  }
  __attribute__((always_inline)) ~DriverScope() {
    if (outermost_) t_flags.in_driver = 0;
  }
  /// Whether this call is the outermost and the process records.
  bool accounts() const { return accounts_; }
  bool is_outermost() const { return outermost_; }
  /// Whether the thread is in a driver call. `here`: the stack pointer. If a jump out of a callback
  /// has left the call, its frame lay at `here` or deeper in the stack. A call inside the open one
  /// would have its frame deeper still.
  static bool is_open(uintptr_t here) {
    const uintptr_t opened = t_flags.in_driver;
    return opened != 0 && here != opened && !was_left_by_longjmp(opened, here);
  }

 private:
  const bool outermost_;
  bool accounts_;
};

}  // namespace gpupeak::preload

namespace gpupeak::preload::calls {

inline uint64_t value_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}
inline uint64_t value_of(uint64_t pointer) {
  return pointer;
}

/// Calls `run`, and `note()` if it has succeeded and the process records. `kFrees`: it may give
/// memory back.
template <bool kFrees = false, typename Run, typename Note>
__attribute__((always_inline)) inline CUresult noted(Run run, Note note) {
  DriverScope scope;
  if (kFrees && scope.accounts()) read_unread_peaks();
  const CUresult result = run();
  if (scope.accounts() && result == CUDA_SUCCESS) note();
  return result;
}

/// Logs a failed allocation. If memory is short, the driver takes back what pools and graphs hold
/// in reserve. The reserves are read before, so that the log has what was left then. Pools may be
/// asked only after a call that breaks a capture as an allocation does (driver.h). Graphs' reserves
/// may always be asked for.
inline void note_failure(const ApiCall& call, gpupeak_kind kind, int device, uint64_t bytes,
                         CUresult result) {
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    if (kind == GPUPEAK_KIND_LINEAR || kind == GPUPEAK_KIND_POOL) read_all_pools();
    const int current = has_graph_memory() ? current_device() : kNoDevice;
    if (current != kNoDevice) graph_reserve_read(call, current);
  }
  device_failed(call, kind, device, bytes, result);
}

/// Whether an allocation of this kind takes the device's memory at once. Managed memory does not:
/// its pages come when they are touched, and go when there is no room.
constexpr bool takes_device_memory(gpupeak_kind kind) {
  return kind == GPUPEAK_KIND_LINEAR || kind == GPUPEAK_KIND_ARRAY || kind == GPUPEAK_KIND_VMM;
}

/// The steps of an allocation, in their order: calls `run`, then `note(device)`, or notes the
/// failure. `device_of()`: whose memory it is. `bytes`: what is asked for; `run` may change it to
/// what it got. `most`: what the call may take, where that is not known before; else 0.
template <typename DeviceOf, typename Run, typename Note>
CUresult allocate_on(const ApiCall& call, gpupeak_kind kind, DeviceOf device_of,
                     const uint64_t& bytes, uint64_t most, Run run, Note note) {
  DriverScope scope;
  const DeviceCall under_way;
  const CUresult result = takes_device_memory(kind)
                              ? within_limit(scope, device_of, most != 0 ? most : bytes, run)
                              : run();
  if (!scope.accounts()) return result;
  const int device = device_of();
  if (result != CUDA_SUCCESS) {
    note_failure(call, kind, device, bytes, result);
  } else {
    note(device);
    if (kind == GPUPEAK_KIND_LINEAR)
      read_all_pools();  // the driver may have taken from their reserves
    sample_driver_memory();
  }
  return result;
}

/// The same for a block of the current device, which is counted and logged. `value()`: its address
/// or handle.
template <typename Run, typename Value>
CUresult allocate(const ApiCall& call, KeySpace space, gpupeak_kind kind, Run run, Value value,
                  const uint64_t& bytes, uint64_t most = 0) {
  return allocate_on(
      call, kind, [] { return current_device(); }, bytes, most, run,
      [&](int device) {
        device_allocated(
            call, space, value(),
            {.bytes = bytes, .context = current_context(), .device = device, .kind = kind});
      });
}

/// Whether the block is managed memory of a page and more. Looks it up only if the process has made
/// managed memory. What smaller blocks give back, the next reading tells: around each of their
/// frees two readings would take twice as long as the free.
inline bool is_large_managed(KeySpace space, uint64_t value, DeviceBlock& block) {
  return counters().managed.peak >= kDriverPageBytes && space == KeySpace::kPointer &&
         device_find(space, value, block) && block.kind == GPUPEAK_KIND_MANAGED &&
         block.bytes >= kDriverPageBytes;
}

/// Bytes that the free of an unknown block gives back, + 1; 0: not known. Only of an attached
/// program, whose memory from before the attach is not known.
inline uint64_t ask_what_goes(KeySpace space, uint64_t value) {
  if (!came_late()) return 0;
  if (space == KeySpace::kPointer) return gives_back_plus_1(value);
  return space == KeySpace::kRegistered || space == KeySpace::kAddresses ? 1 : 0;
}

enum class Frees : uint8_t { kOwn, kImported };
/// The common shape of a free. The block is taken out of the table before the real call, since
/// another thread may get the same address before the call returns. If the call fails, the block is
/// put back.
template <typename Run>
__attribute__((always_inline)) inline CUresult release(const ApiCall& call, KeySpace space,
                                                       uint64_t value, Run run,
                                                       Frees frees = Frees::kOwn) {
  DriverScope scope;
  if (!scope.accounts() || value == 0) return run();
  read_unread_peaks();
  LedgerBracket bracket;
  DeviceBlock block;
  if (is_large_managed(space, value, block))
    bracket.open(call, GPUPEAK_LEDGER_MANAGED, block.device);
  DeviceCall under_way{DeviceCall::kNotYet};
  const bool known = device_freeing(call, space, value, block, under_way);
  const uint64_t gives_back = known                       ? 0
                              : frees == Frees::kImported ? 1
                                                          : ask_what_goes(space, value);
  const CUresult result = run();
  rest_limits();
  if (known && result != CUDA_SUCCESS) device_not_freed(space, value, block);
  if (!known && result == CUDA_SUCCESS) device_unknown_freed(call, value, gives_back);
  return result;
}

// Linear, pinned, managed and registered memory.

/// The first arguments are where the address goes and how many bytes there are.
template <gpupeak_kind kKind, typename Real, typename Pointer, typename Size, typename... Rest>
CUresult mem_alloc(const ApiCall& call, Real real, Pointer* out, Size bytes, Rest... rest) {
  constexpr auto kSpace = kKind == GPUPEAK_KIND_VMM_VA ? KeySpace::kAddresses : KeySpace::kPointer;
  return allocate(
      call, kSpace, kKind, [&] { return real(out, bytes, rest...); },
      [&] { return value_of(*out); }, bytes);
}

template <typename Real, typename Pointer, typename Size>
CUresult mem_alloc_pitch(const ApiCall& call, Real real, Pointer* out, Size* pitch, Size width,
                         Size height, unsigned element_bytes) {
  const uint64_t rows = height;
  uint64_t bytes = width * rows;
  const auto run = [&] {
    const CUresult result = real(out, pitch, width, height, element_bytes);
    if (result == CUDA_SUCCESS) bytes = *pitch * rows;
    return result;
  };
  // The driver rounds rows up, to 512 bytes as far as is known.
  return allocate(
      call, KeySpace::kPointer, GPUPEAK_KIND_LINEAR, run, [&] { return value_of(*out); }, bytes,
      (static_cast<uint64_t>(width) + 4096) * rows);
}

/// A captured call may only free a graph's memory. That memory stays known, and is not counted
/// here.
template <KeySpace kSpace, typename Real, typename At, typename... Rest>
CUresult mem_free(const ApiCall& call, Real real, At at, Rest... rest) {
  return release(call, kSpace, value_of(at), [&] { return real(at, rest...); });
}

template <typename Real>
CUresult mem_host_register(const ApiCall& call, Real real, void* at, size_t bytes, unsigned flags) {
  return allocate(
      call, KeySpace::kRegistered, GPUPEAK_KIND_REGISTERED, [&] { return real(at, bytes, flags); },
      [&] { return value_of(at); }, bytes);
}

// Memory pools, and allocations in the order of a stream.

/// `find_pool` finds the pool that the call takes from. A captured call gives addresses, but no
/// memory.
template <typename FindPool, typename Run>
__attribute__((always_inline)) inline CUresult allocate_async(const ApiCall& call, CUstream stream,
                                                              CUdeviceptr* out, uint64_t bytes,
                                                              FindPool find_pool, Run run) {
  DriverScope scope;
  const bool asks = scope.accounts() || (has_limits() && scope.is_outermost());
  const bool captured = asks && is_capturing(stream, call.per_thread);
  // A pool grows by 32 MiB and more at once. A captured call takes nothing.
  constexpr uint64_t kMostGrowth = 64 << 20;
  const CUresult result =
      captured ? run()
               : within_limit(
                     scope, [&] { return find_pool().device; }, bytes + kMostGrowth, run);
  if (!scope.accounts()) return result;
  if (captured && result == CUDA_SUCCESS) {
    device_noted(KeySpace::kPointer, *out, {.bytes = bytes, .kind = GPUPEAK_KIND_GRAPH});
    return result;
  }
  const PoolPlace from = captured ? PoolPlace{} : find_pool();
  if (result != CUDA_SUCCESS) {
    const PoolPlace place = pool_place(from.pool, from.device);
    note_failure(call, place.kind, place.device, bytes, result);
    return result;
  }
  const uint64_t reserved = pool_attribute(from.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  if (pool_allocated(call, *out, bytes, from.pool, from.device, reserved)) pool_read(from.pool);
  return result;
}

/// Takes from the current pool of the stream's device, whatever context is current.
template <typename Real>
CUresult mem_alloc_async(const ApiCall& call, Real real, CUdeviceptr* out, size_t bytes,
                         CUstream stream) {
  const auto find_pool = [&] {
    const int device = stream_device(stream, call.per_thread);
    return PoolPlace{.pool = device_pool(device), .device = device};
  };
  return allocate_async(call, stream, out, bytes, find_pool,
                        [&] { return real(out, bytes, stream); });
}

template <typename Real>
CUresult mem_alloc_from_pool_async(const ApiCall& call, Real real, CUdeviceptr* out, size_t bytes,
                                   CUmemoryPool pool, CUstream stream) {
  const auto find_pool = [&] {
    return PoolPlace{.pool = pool, .device = stream_device(stream, call.per_thread)};
  };
  return allocate_async(call, stream, out, bytes, find_pool,
                        [&] { return real(out, bytes, pool, stream); });
}

template <typename Real>
CUresult pool_create(const ApiCall&, Real real, CUmemoryPool* out,
                     const CUmemPoolProps* properties) {
  const auto run = [&] { return real(out, properties); };
  return noted(run, [&] {
    // CU_MEM_ALLOCATION_TYPE_MANAGED, which headers before CUDA 13.0 lack.
    constexpr int kManaged = 2;
    const bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    const bool managed = static_cast<int>(properties->allocType) == kManaged;
    pool_created({.pool = *out,
                  .device = on_device ? properties->location.id : kNoDevice,
                  .kind = managed     ? GPUPEAK_KIND_MANAGED
                          : on_device ? GPUPEAK_KIND_POOL
                                      : GPUPEAK_KIND_HOST_VMM});
  });
}

/// Sets the pool that a device's allocations come from.
template <typename Real, typename... Arguments>
CUresult set_device_pool(const ApiCall&, Real real, Arguments... arguments) {
  const CUresult result = real(arguments...);
  forget_device_pools();
  return result;
}

template <typename Real>
CUresult pool_destroy(const ApiCall&, Real real, CUmemoryPool pool) {
  DriverScope scope;
  if (!scope.accounts()) return real(pool);
  read_unread_peaks();
  const PoolState state = pool_destroying(pool);
  const CUresult result = real(pool);
  forget_device_pools();
  pool_destroyed(state, result == CUDA_SUCCESS);
  return result;
}

/// A synchronise of a stream, an event or a context. Its success shows that no capture forbids
/// questions to the driver.
template <typename Real, typename... Arguments>
CUresult synchronise(const ApiCall&, Real real, Arguments... arguments) {
  DriverScope scope;
  const CUresult result = real(arguments...);
  rest_limits();
  if (scope.accounts() && result == CUDA_SUCCESS) {
    read_all_pools();
    sample_driver_memory();
  }
  return result;
}

template <typename Real>
CUresult pool_trim(const ApiCall&, Real real, CUmemoryPool pool, size_t keep_bytes) {
  return noted<true>([&] { return real(pool, keep_bytes); }, [&] { pool_read(pool); });
}

}  // namespace gpupeak::preload::calls
