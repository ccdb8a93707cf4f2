#include <pthread.h>

#include "base/arch.h"

namespace gpupeak::preload {

/// A counter of 25 MHz stands still for some hundred cycles, so two of these readings are equal. An
/// event that depends on another thread's event comes at least that much later.
bool arch::counter_can_be_trusted() {
  constexpr int kReadings = 256;
  uint64_t last = counter();
  for (int i = 0; i < kReadings; ++i) {
    const uint64_t now = counter();
    if (now <= last) return false;
    last = now;
  }
  return true;
}

uint64_t arch::thread_id() {
  return pthread_self();
}

}  // namespace gpupeak::preload
