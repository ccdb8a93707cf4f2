// A lock that may be held while a function of another library runs; none of our other locks may be.
// After some time a waiter goes on without it, so it stops no thread for good. HOOK-SAFE; any
// thread may unlock.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpupeak::preload {

class TimedLock {
 public:
  /// Waits in naps of 50 ms: if the process is stopped meanwhile, that time counts as one nap only.
  static constexpr int kFourSeconds = 80;  ///< longer than any single allocation takes

  /// False: the time has passed, and the lock is still held.
  bool lock(int naps = kFourSeconds) {
    uint32_t state = kFree;
    return word_.compare_exchange_strong(state, kHeld) || wait(naps);
  }
  void unlock() {
    if (word_.exchange(kFree) == kAwaited) wake();
  }
  /// In a forked child, where the holder no longer exists.
  void reset() { word_.store(kFree, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kAwaited = 2;

  bool wait(int naps);
  void wake();

  std::atomic<uint32_t> word_{kFree};
};

}  // namespace gpupeak::preload
