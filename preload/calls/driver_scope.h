// A scope that is open while a thread is in a driver call. Only the outermost call is recorded: the
// driver calls its own entry points, and then our hooks run again inside. HOOK-SAFE.
#pragma once

#include "base/hook_scope.h"
#include "base/process_state.h"
#include "track/driver_readings.h"

namespace gpupeak::preload {

class DriverScope {
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
  DriverScope(const DriverScope&) = delete;
  DriverScope& operator=(const DriverScope&) = delete;
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
