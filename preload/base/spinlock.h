// A lock that needs no initialisation and no allocator, for the preload's rare shared paths.
// HOOK-SAFE. Held only inside a HookScope, so that a signal handler of the same thread never waits
// for it.
#pragma once

#include <atomic>

#include "base/syscalls.h"

namespace gpupeak::preload {

class SpinLock {
 public:
  void lock() {
    for (int spins = 0; held_.exchange(true, std::memory_order_acquire); ++spins) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++spins < 128) {
          __builtin_ia32_pause();
        } else {
          sys::sched_yield();  // the holder may have been preempted
        }
      }
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }
  /// In a forked child only, where the holder no longer exists.
  void reset() { held_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> held_{false};
};

class LockGuard {
 public:
  explicit LockGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace gpupeak::preload
