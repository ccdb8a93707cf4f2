#include "base/timed_lock.h"

#include <linux/futex.h>

#include <cerrno>

#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

struct Time {
  int64_t seconds, ns;
};
constexpr Time kNap{0, 50'000'000};

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const Time* time) {
  return sys::call6(SYS_futex, reinterpret_cast<long>(&word), operation | FUTEX_PRIVATE_FLAG, value,
                    reinterpret_cast<long>(time), 0, 0);
}

}  // namespace

bool TimedLock::wait(int naps) {
  for (int taken = 0; taken < naps;) {
    // Whoever sleeps here leaves it marked, since others may sleep here too.
    if (word_.exchange(kAwaited) == kFree) return true;
    if (futex(word_, FUTEX_WAIT, kAwaited, &kNap) == -ETIMEDOUT) ++taken;
  }
  return false;
}

void TimedLock::wake() {
  futex(word_, FUTEX_WAKE, 1, nullptr);
}

}  // namespace gpupeak::preload
