// The stretch of a driver call. The driver calls its own entry points, and allocators of ours may
// be hooked below it: only a thread's outermost call is accounted. HOOK-SAFE.
#pragma once

#include "base/hook_scope.h"
#include "base/process_state.h"

namespace gpupeak::preload {

class DriverScope {
 public:
  DriverScope() : accounts_(t_flags.driver_depth++ == 0 && ensure_started_for_cuda()) {}
  ~DriverScope() { --t_flags.driver_depth; }
  DriverScope(const DriverScope&) = delete;
  DriverScope& operator=(const DriverScope&) = delete;
  /// Whether this call is the outermost and the process records.
  bool accounts() const { return accounts_; }

 private:
  bool accounts_;
};

}  // namespace gpupeak::preload
