// Driver calls for contexts, also for primary and green ones. hooks/cuda.cc instantiates them for
// the rows of cuda_table.def. Each gets the real function and its arguments, and returns the real
// function's result, or out of memory if a limit refuses the call (track/limit.h). HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "calls/driver_scope.h"
#include "calls/ledger_calls.h"
#include "track/contexts.h"
#include "track/driver.h"
#include "track/ledger.h"
#include "track/limit.h"

namespace gpupeak::preload::calls {

/// The common part of all forms of cuCtxCreate.
template <typename Run>
CUresult context_create(const ApiCall& call, CUcontext* out, CUdevice device, Run run) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device);
  const CUresult result = within_limit(scope, [device] { return device; }, kUnknownNeed, run);
  if (!scope.accounts()) return result;
  if (result == CUDA_SUCCESS) context_began(*out, device);
  return note_shortage(call, device, result);
}

template <typename Real>
CUresult ctx_create(const ApiCall& call, Real real, CUcontext* out, unsigned flags,
                    CUdevice device) {
  return context_create(call, out, device, [&] { return real(out, flags, device); });
}

template <typename Real, typename Parameters>
CUresult ctx_create_affinity(const ApiCall& call, Real real, CUcontext* out, Parameters* parameters,
                             int count, unsigned flags, CUdevice device) {
  return context_create(call, out, device,
                        [&] { return real(out, parameters, count, flags, device); });
}

template <typename Real, typename Parameters>
CUresult ctx_create_params(const ApiCall& call, Real real, CUcontext* out, Parameters* parameters,
                           unsigned flags, CUdevice device) {
  return context_create(call, out, device, [&] { return real(out, parameters, flags, device); });
}

template <typename Real>
CUresult ctx_create_vdpau(const ApiCall& call, Real real, CUcontext* out, unsigned flags,
                          CUdevice device, uint32_t vdpau, void* lookup) {
  return context_create(call, out, device, [&] { return real(out, flags, device, vdpau, lookup); });
}

template <typename Real>
CUresult ctx_destroy(const ApiCall& call, Real real, CUcontext context) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) {
    read_unread_peaks();
    bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device_of_context(context));
  }
  const CUresult result = real(context);
  if (scope.accounts() && result == CUDA_SUCCESS)
    context_ended(call, context, GPUPEAK_CONTEXT_DESTROYED);
  return result;
}

template <typename Real>
CUresult green_create(const ApiCall& call, Real real, void* out, void* resources, CUdevice device,
                      unsigned flags) {
  DriverScope scope;
  const auto run = [&] {
    return within_limit(scope, [device] { return device; }, kUnknownNeed,
                        [&] { return real(out, resources, device, flags); });
  };
  if (!scope.accounts()) return run();
  const LedgerBracket bracket(call, GPUPEAK_LEDGER_CONTEXT, device);
  const CUresult result = run();
  if (result == CUDA_SUCCESS) green_context_began(*static_cast<void**>(out), device);
  return result;
}

template <typename Real>
CUresult green_destroy(const ApiCall& call, Real real, void* green) {
  DriverScope scope;
  if (!scope.accounts()) return real(green);
  const LedgerBracket bracket(call, GPUPEAK_LEDGER_CONTEXT, device_of_green_context(green));
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
  const CUresult result = within_limit(scope, [device] { return device; }, kUnknownNeed,
                                       [&] { return real(out, device); });
  if (scope.accounts() && result == CUDA_SUCCESS) {
    primary_context(device) = *out;
    if (!was_active) context_began(*out, device);
  }
  return scope.accounts() ? note_shortage(call, device, result) : result;
}

/// Release and reset of a primary context. The context has ended only if the driver says that it is
/// inactive.
template <typename Real>
CUresult primary_end(const ApiCall& call, Real real, CUdevice device, gpupeak_context_event event) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) {
    read_unread_peaks();
    bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device);
  }
  const CUresult result = real(device);
  if (scope.accounts() && result == CUDA_SUCCESS && !primary_context_is_active(device)) {
    context_ended(call, primary_context(device), event);
  }
  return result;
}

template <typename Real>
CUresult primary_release(const ApiCall& call, Real real, CUdevice device) {
  return primary_end(call, real, device, GPUPEAK_CONTEXT_DESTROYED);
}

template <typename Real>
CUresult primary_reset(const ApiCall& call, Real real, CUdevice device) {
  return primary_end(call, real, device, GPUPEAK_CONTEXT_RESET);
}

}  // namespace gpupeak::preload::calls
