// Contexts: a thread's stack of contexts, primary contexts, and what ends with a context.
#include <cstdlib>
#include <utility>
#include <vector>

#include "config.h"
#include "costs.h"
#include "export.h"

namespace fake_cuda {
namespace {

thread_local std::vector<CUcontext> t_stack;
constexpr uint64_t kGreenContextBytes = 4 * kMiB;

}  // namespace

Context* context_of(CUcontext handle) {
  if (Context* const found = driver().contexts.find(handle)) return found;
  for (const auto& device : driver().devices) {
    if (handle_of(&device->primary) == handle)
      return device->primary.active ? &device->primary : nullptr;
  }
  return nullptr;
}

Context* current_context() {
  return t_stack.empty() ? nullptr : context_of(t_stack.back());
}

CUresult no_context() {
  return t_stack.empty() || t_stack.back() == nullptr ? CUDA_ERROR_INVALID_CONTEXT
                                                      : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

namespace {

void end_context(Context* context) {
  free_blocks_of(context);
  free_host_of(context);
  free_arrays_of(context);
  const auto is_its = [&](const auto& object) { return object.context == context; };
  driver().streams.remove_if(is_its);
  driver().events.remove_if(is_its);
  driver().functions.remove_if(
      [&](const auto& function) { return function.module->context == context; });
  driver().modules.remove_if(is_its);
  discharge_context(context->device, context);
}

void set_top(CUcontext context) {
  if (t_stack.empty())
    t_stack.push_back(context);
  else
    t_stack.back() = context;
}

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device_of(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Context* const context = driver().contexts.add({.device = device, .flags = flags});
  if (!charge_context(device, context)) {
    driver().contexts.remove(context);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = handle_of(context);
  t_stack.push_back(*out);
  return CUDA_SUCCESS;
}

CUresult destroy(CUcontext handle) {
  Context* const context = driver().contexts.find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  end_context(context);
  driver().contexts.remove(context);
  if (!t_stack.empty() && t_stack.back() == handle) t_stack.pop_back();
  return CUDA_SUCCESS;
}

/// A green context is a part of the device's primary context. So memory that is allocated in a
/// green context outlives it.
CUresult create_green(void** out, CUdevice ordinal) {
  Device* const device = device_of(ordinal);
  if (out == nullptr || device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = driver().contexts.add({.device = ordinal});
  if (!charge_in_context(ordinal, context, Cost::context, kGreenContextBytes)) {
    driver().contexts.remove(context);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = context;
  return CUDA_SUCCESS;
}

CUresult destroy_green(void* green) {
  Context* const context = driver().contexts.find(green);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  discharge_context(context->device, context);
  driver().contexts.remove(context);
  return CUDA_SUCCESS;
}

CUresult context_of_green(CUcontext* out, void* green) {
  Context* const context = driver().contexts.find(green);
  if (out == nullptr || context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *out = handle_of(context);
  return CUDA_SUCCESS;
}

CUresult push(CUcontext handle) {
  if (context_of(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  t_stack.push_back(handle);
  return CUDA_SUCCESS;
}

CUresult pop(CUcontext* out) {
  if (t_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = t_stack.back();
  t_stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult set_current(CUcontext handle) {
  if (handle == nullptr) {
    if (!t_stack.empty()) t_stack.pop_back();
    return CUDA_SUCCESS;
  }
  if (context_of(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  set_top(handle);
  return CUDA_SUCCESS;
}

CUresult get_current(CUcontext* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = t_stack.empty() ? nullptr : t_stack.back();
  return CUDA_SUCCESS;
}

CUresult get_device(CUdevice* out) {
  const Context* const context = current_context();
  if (context == nullptr) return no_context();
  *out = context->device;
  return CUDA_SUCCESS;
}

CUresult device_of_context(CUdevice* out, CUcontext handle) {
  const Context* const context = handle != nullptr ? context_of(handle) : current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *out = context->device;
  return CUDA_SUCCESS;
}

CUresult get_flags(unsigned* out) {
  const Context* const context = current_context();
  if (context == nullptr) return no_context();
  *out = context->flags;
  return CUDA_SUCCESS;
}

CUresult api_version(CUcontext, unsigned* out) {
  *out = 3020;
  return CUDA_SUCCESS;
}

CUresult synchronize() {
  const Context* const context = current_context();
  if (context == nullptr) return no_context();
  pools_give_back(context->device);
  return CUDA_SUCCESS;
}

CUresult set_limit(CUlimit limit, size_t value) {
  const Context* const context = current_context();
  if (context == nullptr) return no_context();
  if (limit == CU_LIMIT_PRINTF_FIFO_SIZE)
    charge_in_context(context->device, context, Cost::limits, round_up(value, kPage));
  return CUDA_SUCCESS;
}

CUresult enable_peer() {
  const Context* const context = current_context();
  if (context == nullptr) return no_context();
  charge_in_context(context->device, context, Cost::peer, kPage);
  return CUDA_SUCCESS;
}

CUresult get_limit(size_t* out) {
  *out = 1024;
  return CUDA_SUCCESS;
}

CUresult priority_range(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

/// What a context needs of the heap: blocks of 16 to 115 bytes, and half as many that go at once.
/// Each holds the one before it, so that nothing else is needed.
void take_host_blocks(ContextBlock*& last) {
  for (uint64_t i = 0; i < config().host_blocks; ++i) {
    auto* block = static_cast<ContextBlock*>(malloc(16 + i % 100));
    if (block == nullptr) return;
    block->before = std::exchange(last, block);
    if (i % 2 == 0) free(malloc(48));
  }
}

void give_host_blocks(ContextBlock*& last) {
  while (last != nullptr) free(std::exchange(last, last->before));
}

CUresult primary_retain(CUcontext* out, CUdevice ordinal) {
  Device* const device = device_of(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (!device->primary.active && !charge_context(ordinal, &device->primary))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (!device->primary.active) take_host_blocks(device->host_blocks);
  ++device->primary_references;
  device->primary.active = true;
  *out = handle_of(&device->primary);
  return CUDA_SUCCESS;
}

void end_primary(Device& device) {
  end_context(&device.primary);
  device.primary.active = false;
  device.primary_references = 0;
  give_host_blocks(device.host_blocks);
}

CUresult primary_release(CUdevice ordinal) {
  Device* const device = device_of(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  device->others -= config().leaving_bytes;
  device->taken -= config().leaving_bytes;
  if (--device->primary_references == 0) end_primary(*device);
  return CUDA_SUCCESS;
}

CUresult primary_reset(CUdevice ordinal) {
  Device* const device = device_of(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  end_primary(*device);
  return CUDA_SUCCESS;
}

CUresult primary_state(CUdevice ordinal, unsigned* flags, int* active) {
  const Device* const device = device_of(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (flags != nullptr) *flags = device->primary.flags;
  if (active != nullptr) *active = device->primary.active ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult primary_flags(CUdevice ordinal, unsigned flags) {
  Device* const device = device_of(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  device->primary.flags = flags;
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_CUDA_EXPORT(cuCtxCreate, "cuCtxCreate", 2000, create,
                 (CUcontext * out, unsigned flags, CUdevice device), (out, flags, device))
FAKE_CUDA_EXPORT(cuCtxCreate_v2, "cuCtxCreate", 3020, create,
                 (CUcontext * out, unsigned flags, CUdevice device), (out, flags, device))
FAKE_CUDA_EXPORT(cuCtxCreate_v3, "cuCtxCreate", 11040, create,
                 (CUcontext * out, void*, int, unsigned flags, CUdevice device),
                 (out, flags, device))
FAKE_CUDA_EXPORT(cuCtxCreate_v4, "cuCtxCreate", 12050, create,
                 (CUcontext * out, void*, unsigned flags, CUdevice device), (out, flags, device))
FAKE_CUDA_EXPORT(cuGreenCtxCreate, "cuGreenCtxCreate", 12040, create_green,
                 (void** out, void*, CUdevice device, unsigned), (out, device))
FAKE_CUDA_EXPORT(cuGreenCtxDestroy, "cuGreenCtxDestroy", 12040, destroy_green, (void* green),
                 (green))
FAKE_CUDA_EXPORT(cuCtxFromGreenCtx, "cuCtxFromGreenCtx", 12040, context_of_green,
                 (CUcontext * out, void* green), (out, green))
FAKE_CUDA_EXPORT(cuCtxDestroy, "cuCtxDestroy", 2000, destroy, (CUcontext context), (context))
FAKE_CUDA_EXPORT(cuCtxDestroy_v2, "cuCtxDestroy", 4000, destroy, (CUcontext context), (context))
FAKE_CUDA_EXPORT(cuCtxDetach, "cuCtxDetach", 2000, destroy, (CUcontext context), (context))
FAKE_CUDA_EXPORT(cuCtxPushCurrent, "cuCtxPushCurrent", 2000, push, (CUcontext context), (context))
FAKE_CUDA_EXPORT(cuCtxPushCurrent_v2, "cuCtxPushCurrent", 4000, push, (CUcontext context),
                 (context))
FAKE_CUDA_EXPORT(cuCtxPopCurrent, "cuCtxPopCurrent", 2000, pop, (CUcontext * out), (out))
FAKE_CUDA_EXPORT(cuCtxPopCurrent_v2, "cuCtxPopCurrent", 4000, pop, (CUcontext * out), (out))
FAKE_CUDA_EXPORT(cuCtxSetCurrent, "cuCtxSetCurrent", 4000, set_current, (CUcontext context),
                 (context))
FAKE_CUDA_EXPORT(cuCtxGetCurrent, "cuCtxGetCurrent", 4000, get_current, (CUcontext * out), (out))
FAKE_CUDA_EXPORT(cuCtxGetDevice, "cuCtxGetDevice", 2000, get_device, (CUdevice * out), (out))
FAKE_CUDA_EXPORT(cuCtxGetDevice_v2, "cuCtxGetDevice", 13000, device_of_context,
                 (CUdevice * out, CUcontext context), (out, context))
FAKE_CUDA_EXPORT(cuCtxGetFlags, "cuCtxGetFlags", 7000, get_flags, (unsigned* out), (out))
FAKE_CUDA_EXPORT(cuCtxGetApiVersion, "cuCtxGetApiVersion", 3020, api_version,
                 (CUcontext context, unsigned* out), (context, out))
FAKE_CUDA_EXPORT(cuCtxSynchronize, "cuCtxSynchronize", 2000, synchronize, (), ())
FAKE_CUDA_EXPORT(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000, synchronize, (CUcontext), ())
FAKE_CUDA_EXPORT(cuCtxSetLimit, "cuCtxSetLimit", 3010, set_limit, (CUlimit limit, size_t value),
                 (limit, value))
FAKE_CUDA_EXPORT(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000, enable_peer,
                 (CUcontext, unsigned), ())
FAKE_CUDA_EXPORT(cuCtxGetLimit, "cuCtxGetLimit", 3010, get_limit, (size_t * out, CUlimit), (out))
FAKE_CUDA_EXPORT(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", 5050, priority_range,
                 (int* least, int* greatest), (least, greatest))
FAKE_CUDA_EXPORT(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, primary_retain,
                 (CUcontext * out, CUdevice device), (out, device))
FAKE_CUDA_EXPORT(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, primary_release,
                 (CUdevice device), (device))
FAKE_CUDA_EXPORT(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, primary_release,
                 (CUdevice device), (device))
FAKE_CUDA_EXPORT(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, primary_reset,
                 (CUdevice device), (device))
FAKE_CUDA_EXPORT(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, primary_reset,
                 (CUdevice device), (device))
FAKE_CUDA_EXPORT(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000, primary_state,
                 (CUdevice device, unsigned* flags, int* active), (device, flags, active))
FAKE_CUDA_EXPORT(cuDevicePrimaryCtxSetFlags, "cuDevicePrimaryCtxSetFlags", 7000, primary_flags,
                 (CUdevice device, unsigned flags), (device, flags))
FAKE_CUDA_EXPORT(cuDevicePrimaryCtxSetFlags_v2, "cuDevicePrimaryCtxSetFlags", 11000, primary_flags,
                 (CUdevice device, unsigned flags), (device, flags))

}  // namespace fake_cuda
