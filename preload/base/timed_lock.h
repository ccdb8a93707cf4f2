// A lock that is held while another library's function runs, which no lock of ours should be: who
// has waited for some seconds goes on without it, so that it can keep nobody from going on for
// good. HOOK-SAFE; any thread may unlock.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpupeak::preload {

class TimedLock {
 public:
  /// False: some seconds have passed, and it is still held.
  bool lock() {
    uint32_t state = kFree;
    return word_.compare_exchange_strong(state, kHeld) || wait();
  }
  void unlock() {
    if (word_.exchange(kFree) == kAwaited) wake();
  }
  /// In a forked child, where the holder no longer exists.
  void reset() { word_.store(kFree, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kAwaited = 2;

  bool wait();
  void wake();

  std::atomic<uint32_t> word_{kFree};
};

}  // namespace gpupeak::preload
