// Driver calls for contexts, also for primary and green ones, and those by which the driver takes
// memory for itself. As those of allocate.h.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "calls/allocate.h"
#include "calls/uses.h"
#include "track/device_memory.h"
#include "track/driver.h"
#include "track/ledger.h"
#include "track/limit.h"

namespace gpupeak::preload::calls {

// Code, launches, streams, limits, peers, graphics.

/// Logs the failure if the driver had no room for what it needs itself. Returns `result`.
inline CUresult note_shortage(const ApiCall& call, int device, CUresult result) {
  if (__builtin_expect(result == CUDA_ERROR_OUT_OF_MEMORY, 0))
    device_failed(call, GPUPEAK_KIND_NONE, device, 0, result);
  return result;
}

/// A rare call: the change of the driver's figure belongs to `cause`. `say(bracket)` says more of
/// it.
template <typename Run, typename Say = void (*)(LedgerBracket&)>
CUresult in_bracket(
    const ApiCall& call, gpupeak_ledger_cause cause, Run real, Say say = [](LedgerBracket&) {}) {
  DriverScope scope;
  const auto run = [&] { return within_limit(scope, real); };
  if (!scope.accounts()) return run();
  const int device = current_device();
  LedgerBracket bracket(call, cause, device);
  say(bracket);
  return note_shortage(call, device, run());
}

template <gpupeak_ledger_cause kCause, typename Real, typename... Arguments>
CUresult bracketed(const ApiCall& call, Real real, Arguments... arguments) {
  return in_bracket(call, kCause, [&] { return real(arguments...); });
}

template <typename Real, typename... Arguments>
CUresult load_file(const ApiCall& call, Real real, void** out, const char* path,
                   Arguments... arguments) {
  return in_bracket(
      call, GPUPEAK_LEDGER_CODE, [&] { return real(out, path, arguments...); },
      [path](LedgerBracket& bracket) { bracket.of_file(path); });
}

/// Functions are unloaded: others may get their addresses.
template <typename Real, typename Handle>
CUresult unload(const ApiCall& call, Real real, Handle handle) {
  DriverScope scope;
  if (!scope.accounts()) return real(handle);
  const LedgerBracket bracket(call, GPUPEAK_LEDGER_CODE, current_device());
  const CUresult result = real(handle);
  if (result == CUDA_SUCCESS) {
    forget_launches();
    if (watches_uses()) forget_parameters();
  }
  return result;
}

/// The stack size is for local memory. The other limits are for buffers of their own.
template <typename Real>
CUresult set_limit(const ApiCall& call, Real real, CUlimit limit, size_t value) {
  const bool is_stack = limit == CU_LIMIT_STACK_SIZE;
  return in_bracket(call, is_stack ? GPUPEAK_LEDGER_LOCAL_MEMORY : GPUPEAK_LEDGER_LIMITS,
                    [&] { return real(limit, value); });
}

template <typename Run>
CUresult first_launch(const ApiCall& call, CUfunction function, Run run) {
  const CUresult result =
      in_bracket(call, GPUPEAK_LEDGER_CODE, run,
                 [function](LedgerBracket& bracket) { bracket.of_function(function); });
  // Then the next launch is a first one again.
  if (has_limits() && result != CUDA_SUCCESS) forget_launches();
  return result;
}

/// The function that these arguments launch. Only called for launches; the last form is there so
/// that all other calls compile.
template <typename... Arguments>
void* launched_by(void* function, Arguments...) {
  return function;
}
/// cuLaunchKernelEx: the configuration comes first.
inline void* launched_by(const void*, void* function, void**, void**) {
  return function;
}
template <typename... Arguments>
void* launched_by(Arguments...) {
  return nullptr;
}

/// Only a function's first launch is bracketed.
template <typename Real, typename... Arguments>
CUresult launch(const ApiCall& call, Real real, Arguments... arguments) {
  void* const function = launched_by(arguments...);
  const auto run = [&] { return real(arguments...); };
  const bool is_known = __builtin_expect(g_launches.before(function), 1) ||
                        (!recording() && !has_limits()) || !is_first_launch(function);
  const CUresult result =
      is_known ? run() : first_launch(call, static_cast<CUfunction>(function), run);
  if (watches_uses()) launched(&call, result, arguments...);
  return result;
}

/// A question about a function, which is the second argument. It loads the function if that is not
/// loaded yet.
template <typename Real, typename First, typename... Arguments>
CUresult use_function(const ApiCall& call, Real real, First first, void* function,
                      Arguments... arguments) {
  if (__builtin_expect((!recording() && !has_limits()) || !is_first_use(function), 1))
    return real(first, function, arguments...);
  return in_bracket(
      call, GPUPEAK_LEDGER_CODE, [&] { return real(first, function, arguments...); },
      [&](LedgerBracket& bracket) { bracket.of_function(static_cast<CUfunction>(function)); });
}

// How much memory a device has; with a limit they say less.

/// `bytes` as the call's integers hold it. In the first ABI they have 32 bits: then the largest
/// number stands for more.
template <typename Size>
Size narrowed(uint64_t bytes) {
  constexpr uint64_t kMost = static_cast<Size>(-1);
  return static_cast<Size>(bytes < kMost ? bytes : kMost);
}

template <typename Real, typename Size>
CUresult mem_get_info(const ApiCall&, Real real, Size* free, Size* total) {
  if (!has_limits()) return real(free, total);
  DriverScope scope;
  const CUresult result = real(free, total);
  if (!scope.is_outermost() || result != CUDA_SUCCESS) return result;
  rest_limits();
  uint64_t free_bytes = 0, total_bytes = 0;
  if (!visible_memory_info(free_bytes, total_bytes)) return result;
  if (free != nullptr) *free = narrowed<Size>(free_bytes);
  if (total != nullptr) *total = narrowed<Size>(total_bytes);
  return result;
}

template <typename Real, typename Size>
CUresult device_total(const ApiCall&, Real real, Size* out, CUdevice device) {
  if (!has_limits()) return real(out, device);
  DriverScope scope;
  const CUresult result = real(out, device);
  if (!scope.is_outermost() || result != CUDA_SUCCESS) return result;
  *out = narrowed<Size>(visible_device_total(device));
  return result;
}

/// The common part of all forms of cuCtxCreate.
template <typename Run>
CUresult context_create(const ApiCall& call, CUcontext* out, CUdevice device, Run run) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device);
  const CUresult result = within_limit(
      scope, [device] { return device; }, kUnknownNeed, run);
  if (!scope.accounts()) return result;
  if (result == CUDA_SUCCESS) context_began(*out, device);
  return note_shortage(call, device, result);
}

/// The device is the last argument.
template <typename Real, typename... Arguments>
CUresult ctx_create(const ApiCall& call, Real real, CUcontext* out, Arguments... arguments) {
  return context_create(call, out, last_of(arguments...), [&] { return real(out, arguments...); });
}

template <typename Real>
CUresult ctx_create_vdpau(const ApiCall& call, Real real, CUcontext* out, unsigned flags,
                          CUdevice device, uint32_t vdpau, void* lookup) {
  return context_create(call, out, device, [&] { return real(out, flags, device, vdpau, lookup); });
}

/// The common part of the calls that may end a context. `ended()`: which one has; none: it lives
/// on.
template <typename Device, typename Run, typename Ended>
CUresult context_end(const ApiCall& call, gpupeak_context_event event, Device device, Run run,
                     Ended ended) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) {
    read_unread_peaks();
    bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device());
  }
  const CUresult result = run();
  if (!scope.accounts()) return result;
  const std::optional<CUcontext> context = result == CUDA_SUCCESS ? ended() : std::nullopt;
  if (context)
    context_ended(call, *context, event);
  else
    bracket.did_nothing();
  return result;
}

template <typename Real>
CUresult ctx_destroy(const ApiCall& call, Real real, CUcontext context) {
  return context_end(
      call, GPUPEAK_CONTEXT_DESTROYED, [&] { return device_of_context(context); },
      [&] { return real(context); }, [&] { return std::optional(context); });
}

template <typename Real>
CUresult green_create(const ApiCall& call, Real real, void* out, void* resources, CUdevice device,
                      unsigned flags) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device);
  const CUresult result = within_limit(
      scope, [device] { return device; }, kUnknownNeed,
      [&] { return real(out, resources, device, flags); });
  if (scope.accounts() && result == CUDA_SUCCESS)
    green_context_began(*static_cast<void**>(out), device);
  return result;
}

template <typename Real>
CUresult green_destroy(const ApiCall& call, Real real, void* green) {
  DriverScope scope;
  if (!scope.accounts()) return real(green);
  const LedgerBracket bracket(call, GPUPEAK_LEDGER_CONTEXT, device_of_context(green));
  const CUresult result = real(green);
  if (result == CUDA_SUCCESS) green_context_ended(green);
  return result;
}

template <typename Real>
CUresult primary_retain(const ApiCall& call, Real real, CUcontext* out, CUdevice device) {
  DriverScope scope;
  const bool was_active = scope.accounts() && primary_context_is_active(device);
  LedgerBracket bracket;
  if (scope.accounts() && !was_active) bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device);
  const CUresult result = within_limit(
      scope, [device] { return device; }, kUnknownNeed, [&] { return real(out, device); });
  if (scope.accounts() && result == CUDA_SUCCESS) {
    primary_context(device) = *out;
    if (!was_active) context_began(*out, device);
  }
  return scope.accounts() ? note_shortage(call, device, result) : result;
}

/// Release and reset of a primary context. The context has ended only if the driver says that it is
/// inactive.
template <gpupeak_context_event kEvent, typename Real>
CUresult primary_end(const ApiCall& call, Real real, CUdevice device) {
  return context_end(
      call, kEvent, [device] { return device; }, [&] { return real(device); },
      [device] {
        return primary_context_is_active(device) ? std::nullopt
                                                 : std::optional(primary_context(device));
      });
}

}  // namespace gpupeak::preload::calls
