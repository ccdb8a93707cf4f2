// A device that is to look smaller than it is (GPUPEAK_LIMIT). The driver alone knows what a
// request takes: pages, a pool's growth, local memory, what it can take back of its reserves. So it
// is the driver that refuses: where a call could go beyond the limit, the rest of the card is
// really taken first, as physical memory without an address (the ballast), and given back when
// nothing was short for a second.
//
//   80 GiB, limit 24 GiB:   |  in use 23 GiB  | 1 GiB free |  ballast 56 GiB  |
//
// Far from the limit nothing is taken, and nothing asked but once in a while how much is free.
// docs/design.md, "A smaller card". HOOK-SAFE, called inside a DriverScope, outside any HookScope
// where not said otherwise.
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

/// How much a call may take whose size is not known: a context, code, local memory.
constexpr uint64_t kUnknownNeed = uint64_t{8} << 30;

/// Open around a call that may take up to `bytes` of the device, rounded up to pages.
class LimitScope {
 public:
  LimitScope(int device, uint64_t bytes);
  ~LimitScope();
  LimitScope(const LimitScope&) = delete;
  LimitScope& operator=(const LimitScope&) = delete;
  /// The ballast could not be had, and by what the driver says the request goes beyond the limit.
  bool refuses() const { return refuses_; }
  /// After the call: notes whether it failed by the limit.
  void ended(CUresult result) const;

 private:
  int device_ = -1;         ///< -1: no limit
  uint64_t in_flight_ = 0;  ///< let go by what was known to be free
  bool counted_ = false;    ///< relies on the ballast
  bool refuses_ = false;
};

/// Runs a call that may take as much of the device that `device_of` tells.
template <typename Scope, typename DeviceOf, typename Run>
CUresult within_limit(const Scope& scope, DeviceOf device_of, uint64_t bytes, Run run) {
  if (!has_limits() || !scope.is_outermost()) return run();
  LimitScope limit(device_of(), bytes);
  const CUresult result = limit.refuses() ? CUDA_ERROR_OUT_OF_MEMORY : run();
  limit.ended(result);
  return result;
}

/// For a call by which the driver takes an unknown amount of the current device for itself.
template <typename Scope, typename Run>
CUresult within_limit(const Scope& scope, Run run) {
  return within_limit(scope, current_device, kUnknownNeed, run);
}

/// Where memory is given back or waited for: lets the ballast go if it has not been needed lately.
void rest_limits_slowly();
inline void rest_limits() {
  if (has_limits()) rest_limits_slowly();
}

/// What the program is to see of its current device; false if the driver does not say.
bool visible_memory_info(uint64_t& free_bytes, uint64_t& total_bytes);
/// Of any device; 0 if the driver does not say.
uint64_t visible_device_total(int device);
/// The device of a handle of NVML's; kNoDevice if it is none that this process's CUDA has. Not
/// inside a HookScope: may load NVML.
int device_of_nvml(void* handle);
/// What a card with `real_total` is to have; kNoDevice: a card that the program may not use, or not
/// yet.
uint64_t limit_of(int device, uint64_t real_total);
/// Bytes that the ballast has of a device now.
uint64_t ballast_of(int device);

/// Counts its comings and goings; odd while it is on its way.
uint32_t ballast_changes(int device);
/// Runs `ask`, which asks for what is in use, while the ballast stays as it is, and says how large
/// it is. False if `ask` gives false, or the ballast does not come to rest.
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
/// In a forked child, whose parent's ballast is not its own.
void forget_limits();

}  // namespace gpupeak::preload
