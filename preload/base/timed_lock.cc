#include "base/timed_lock.h"

#include <linux/futex.h>

#include <cerrno>
#include <ctime>

#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

constexpr timespec kNap{0, 50'000'000};

}  // namespace

bool TimedLock::wait(int naps) {
  for (int taken = 0; taken < naps;) {
    // A thread that has slept takes the lock as kAwaited, since others may still sleep.
    if (word_.exchange(kAwaited) == kFree) return true;
    if (sys::futex(&word_, FUTEX_WAIT, kAwaited, &kNap) == -ETIMEDOUT) ++taken;
  }
  return false;
}

void TimedLock::wake() {
  sys::futex(&word_, FUTEX_WAKE, 1);
}

}  // namespace gpupeak::preload
