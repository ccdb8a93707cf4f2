// Questions of the tracker to the real CUDA driver. None changes the driver's state, but for
// take_physical_memory() and give_physical_memory(). Called inside a DriverScope. All are allowed
// while a stream is captured, in every mode (tried on driver 580), but for pool_attribute() and
// stream_device(), which break a capture as an allocation would. These two are asked only after a
// call of the program that breaks a capture, too: its success shows that there is none.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "base/hook_scope.h"
#include "log/log.h"
#include "stack/stack.h"

namespace gpupeak::preload {

// Which driver call an event comes from. HOOK-SAFE.

/// A call of the driver: which function, and from where.
struct ApiCall {
  const char* name;     ///< the driver's function, without ABI suffix
  uint32_t* string_id;  ///< caches the id of `name` in the log; 0: it has none yet
  CallerFrame caller;
  bool per_thread = false;  ///< the variant for the per-thread default stream
};

uint32_t new_api(const ApiCall& call);
/// The id of the function's name in the log.
inline uint32_t api_of(const ApiCall& call) {
  const uint32_t known = __atomic_load_n(call.string_id, __ATOMIC_RELAXED);
  return __builtin_expect(known != 0, 1) ? known : new_api(call);
}

/// Finds the driver's own functions for the tracker. hooks/cuda sets it before the first call.
using DriverLookup = void* (*)(const char* export_name);
void set_driver_lookup(DriverLookup lookup);

/// The real function with this export name; nullptr: this driver is too old, or none is loaded.
void* driver_function(const char* export_name);
/// Changes when the driver is unloaded: addresses from an earlier generation are void.
extern GPUPEAK_OWN uint32_t g_driver_generation;
/// A function of the driver, which may allocate. CUDA_ERROR_NOT_FOUND if the driver lacks it.
template <typename Function>
class DriverFunction;
template <typename... Arguments>
class DriverFunction<CUresult (*)(Arguments...)> {
 public:
  using Function = CUresult (*)(Arguments...);

  constexpr explicit DriverFunction(const char* name) : name_(name) {}
  CUresult operator()(Arguments... arguments) {
    const Function function = get();
    if (__builtin_expect(function == nullptr, 0)) return CUDA_ERROR_NOT_FOUND;
    const LibraryScope inside;
    return function(arguments...);
  }
  bool exists() { return get() != nullptr; }

 private:
  Function get() {
    const uint32_t generation = __atomic_load_n(&g_driver_generation, __ATOMIC_RELAXED);
    if (__builtin_expect(__atomic_load_n(&generation_, __ATOMIC_ACQUIRE) != generation, 0)) {
      __atomic_store_n(&function_, reinterpret_cast<Function>(driver_function(name_)),
                       __ATOMIC_RELAXED);
      __atomic_store_n(&generation_, generation, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&function_, __ATOMIC_RELAXED);
  }

  const char* name_;
  Function function_ = nullptr;
  uint32_t generation_ = 0;  ///< when function_ was last looked up, found or not
};
/// The driver was unloaded.
void forget_driver_functions();

constexpr int kNoDevice = -1;

CUcontext current_context();
/// Ordinal of the current context's device; kNoDevice without one.
int current_device();
/// Free and total bytes of the current device's real card, without the limit of track/limit.h.
/// False if the driver does not say.
bool real_memory_info(uint64_t& free_bytes, uint64_t& total_bytes);
/// Total bytes of the real card; 0 if the driver does not say.
uint64_t real_device_total(int ordinal);
/// Whether the device's memory is the host's.
bool is_integrated(int ordinal);
/// Takes physical memory of the device, without an address. False if there is not enough, or if the
/// driver lacks cuMemCreate.
bool take_physical_memory(int ordinal, uint64_t bytes, CUmemGenericAllocationHandle& handle);
void give_physical_memory(CUmemGenericAllocationHandle handle);
bool ask_if_capturing(CUstream stream, bool per_thread_default);
extern constinit GPUPEAK_OWN std::atomic<bool> g_captures_begun;
/// Whether a stream is being captured. Asks the driver only once a capture has begun in this
/// process, since most processes never capture.
inline bool is_capturing(CUstream stream, bool per_thread_default) {
  return __builtin_expect(g_captures_begun.load(std::memory_order_relaxed), 0) &&
         ask_if_capturing(stream, per_thread_default);
}
/// A capture begins in this process.
void captures_begin();
/// 0: the driver is not loaded, or not initialised.
int device_count();
int ask_for_stream_device(CUstream stream, bool per_thread_default);
extern constinit GPUPEAK_OWN std::atomic<int> g_device_count;  ///< 0: not known yet
/// The device that a stream belongs to; kNoDevice if the driver does not say. Not for a stream that
/// is being captured. The driver is asked only if there are several devices.
inline int stream_device(CUstream stream, bool per_thread_default) {
  return g_device_count.load(std::memory_order_relaxed) == 1
             ? 0
             : ask_for_stream_device(stream, per_thread_default);
}
/// The memory pool that cuMemAllocAsync takes from on this device now; nullptr if the driver does
/// not say. The driver is asked once, and again after forget_device_pools().
CUmemoryPool device_pool(int device);
/// The program has set another pool for a device, or destroyed one.
void forget_device_pools();
uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute);
/// Bytes of a device that are reserved for graphs' memory.
uint64_t graph_reserve(CUdevice device);
/// The size of the allocation around an address; 0 if the driver does not say.
uint64_t bytes_at(CUdeviceptr at);
/// Bytes that the devices get back when the memory at this address is freed, + 1. Managed and host
/// memory give back 0 bytes. 0: the driver does not say.
uint64_t gives_back_plus_1(CUdeviceptr at);
/// The device whose memory is at this address; kNoDevice: no device's, or the driver does not say.
int device_at(CUdeviceptr at);
bool primary_context_is_active(CUdevice device);
/// The device's primary context as the last retain gave it. The driver keeps its handle when the
/// context is reset.
CUcontext& primary_context(CUdevice device);
/// Writes the 16 bytes of the device's UUID; a MIG instance has its own. False if the driver does
/// not say.
bool device_uuid(int ordinal, char* uuid);
bool device_bus_id(int ordinal, char* id, int capacity);
void introduce_new_device(int ordinal);
extern constinit GPUPEAK_OWN std::atomic<uint32_t> g_introduced;  ///< a bit for each device
/// Logs name, UUID and size of a device when it is first seen, and whether its memory is the
/// host's.
inline void introduce_device(int ordinal) {
  if (!has_counters(ordinal)) return;
  if ((g_introduced.load(std::memory_order_relaxed) >> ordinal & 1) == 0)
    introduce_new_device(ordinal);
}
/// In a forked child with a log of its own.
void forget_introductions();

}  // namespace gpupeak::preload
