// What the tracker asks the real CUDA driver. Every question is one that is allowed while a stream is being
// captured, and none changes the driver's state. Called inside a DriverScope.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpupeak::preload {

/// Gives the tracker a way to the driver's own functions; set by hooks/cuda before the first call.
using DriverLookup = void* (*)(const char* export_name);
void set_driver_lookup(DriverLookup lookup);

/// The real function behind an export name, or nullptr: this driver is too old, or there is none.
template <typename Function>
class DriverFunction {
 public:
  constexpr explicit DriverFunction(const char* name) : name_(name) {}
  Function get() {
    Function function = __atomic_load_n(&function_, __ATOMIC_RELAXED);
    if (function == nullptr) {
      function = reinterpret_cast<Function>(look_up(name_));
      __atomic_store_n(&function_, function, __ATOMIC_RELAXED);
    }
    return function;
  }

 private:
  static void* look_up(const char* name);
  const char* name_;
  Function function_ = nullptr;
};
void* driver_function(const char* export_name);
template <typename Function>
void* DriverFunction<Function>::look_up(const char* name) {
  return driver_function(name);
}

constexpr int kNoDevice = -1;

CUcontext current_context();
/// Ordinal of the current context's device; kNoDevice without one.
int current_device();
/// False if the driver does not say.
bool memory_info(uint64_t& free_bytes, uint64_t& total_bytes);
bool is_capturing(CUstream stream, bool per_thread_default);
/// The device that a stream belongs to; kNoDevice if the driver does not say. Not for a capturing stream.
int stream_device(CUstream stream, bool per_thread_default);
/// The pool that cuMemAllocAsync takes from on this device now; nullptr if the driver does not say.
CUmemoryPool device_pool(int device);
uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute);
bool primary_context_is_active(CUdevice device);
/// The device's primary context as the last retain gave it; the driver keeps its handle over resets.
CUcontext& primary_context(CUdevice device);
/// Logs name, UUID and size of a device at its first sight.
void introduce_device(int ordinal);
/// In a forked child with a log of its own.
void forget_introductions();

}  // namespace gpupeak::preload
