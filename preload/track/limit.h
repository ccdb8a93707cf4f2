// Makes a device look smaller than it is (GPUPEAK_LIMIT). The driver alone knows how much memory a
// request takes: pages, a pool's growth, local memory, what it can take back of its reserves. So
// the driver must refuse. If a call could go beyond the limit, we first take the rest of the card,
// as physical memory without an address (the ballast). The ballast is given back when it was not
// needed for a second.
//
//   80 GiB, limit 24 GiB:   |  in use 23 GiB  | 1 GiB free |  ballast 56 GiB  |
//
// Far from the limit nothing is taken, and the driver is only asked now and then how much is free.
// docs/design.md, "A smaller card". HOOK-SAFE, called inside a DriverScope, outside any HookScope
// if not said otherwise.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/syscalls.h"
#include "track/driver.h"

namespace gpupeak::preload {

inline bool has_limits() {
  return __builtin_expect(g_has_limits, 0);
}

/// What a call of unknown size is taken to need at most: a context, code, local memory.
constexpr uint64_t kUnknownNeed = uint64_t{8} << 30;

/// Open around a call that may take up to `bytes` of the device, rounded up to pages.
class LimitScope : NoCopies {
 public:
  LimitScope(int device, uint64_t bytes);
  ~LimitScope();
  /// The ballast could not be had, and the request goes beyond the limit by the driver's figures.
  bool refuses() const { return refuses_; }
  /// After the call: notes whether it failed by the limit.
  void ended(CUresult result) const;

 private:
  int device_ = -1;         ///< -1: no limit
  uint64_t in_flight_ = 0;  ///< bytes, if the call passed since enough was known to be free
  bool counted_ = false;    ///< the call relies on the ballast
  bool refuses_ = false;
};

/// Runs a call that may take up to `bytes` of the device that `device_of` returns.
template <typename Scope, typename DeviceOf, typename Run>
CUresult within_limit(const Scope& scope, DeviceOf device_of, uint64_t bytes, Run run) {
  if (!has_limits() || !scope.is_outermost()) return run();
  LimitScope limit(device_of(), bytes);
  const CUresult result = limit.refuses() ? CUDA_ERROR_OUT_OF_MEMORY : run();
  limit.ended(result);
  return result;
}

/// Runs a call by which the driver takes an unknown amount of the current device for itself.
template <typename Scope, typename Run>
CUresult within_limit(const Scope& scope, Run run) {
  return within_limit(scope, current_device, kUnknownNeed, run);
}

/// Called where memory is freed or waited for: gives the ballast back if it was not needed lately.
void rest_limits_slowly();
inline void rest_limits() {
  if (has_limits()) rest_limits_slowly();
}

/// Free and total bytes of the current device as the program is to see them; false if the driver
/// does not say.
bool visible_memory_info(uint64_t& free_bytes, uint64_t& total_bytes);
/// Total bytes of any device as the program is to see them; 0 if the driver does not say.
uint64_t visible_device_total(int device);
/// The device with a limit that NVML's `handle` stands for; kNoDevice: none of this process's CUDA.
/// Not inside a HookScope: may load NVML.
int device_of_nvml(void* handle);
/// The bytes that a card with `real_total` is to show. kNoDevice: a card that the program may not
/// use, or has not used yet.
uint64_t limit_of(int device, uint64_t real_total);
/// Bytes of a device that are ballast now.
uint64_t ballast_of(int device);

/// Counts the changes of the ballast; odd during a change.
uint32_t ballast_changes(int device);
/// Runs `ask`, which asks for what is in use, until the ballast did not change meanwhile; `ballast`
/// is its size then. False if `ask` returns false, or if the ballast keeps changing.
template <typename Ask>
bool with_steady_ballast(int device, Ask ask, uint64_t& ballast) {
  ballast = 0;
  if (!has_limits()) return ask();
  for (int i = 0; i < 1000; ++i) {
    const uint32_t before = ballast_changes(device);
    if ((before & 1) == 0) {
      ballast = ballast_of(device);
      const bool asked = ask();
      if (ballast_changes(device) == before) return asked;
    }
    sys::sched_yield();
  }
  return false;
}

/// Logs a device's limit. Inside a HookScope.
void log_limit(int device);
/// In a forked child, which does not have its parent's ballast.
void forget_limits();

}  // namespace gpupeak::preload
