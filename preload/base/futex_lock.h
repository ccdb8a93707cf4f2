// A lock that needs no initialisation and no allocator, for the preload's rare shared paths: spins
// for a moment, then sleeps, so that a holder of lower priority can go on; a real-time thread lends
// the holder its priority. HOOK-SAFE. Held only inside a HookScope, so that a signal handler of the
// same thread never waits for it; and never over a call into the loader, whose own lock may be held
// while one of ours is taken.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/hook_scope.h"
#include "base/in_order.h"

namespace gpupeak::preload {

class FutexLock {
 public:
  void lock() {
    uint32_t nobody = 0;
    if (!word_.compare_exchange_strong(nobody, own_thread())) wait();
  }
  void unlock() {
    uint32_t held = own_thread();
    if (!word_.compare_exchange_strong(held, 0)) hand_over();
    if (__builtin_expect(sleepers_.load() != 0, 0)) wake();
  }
  bool is_ours() const { return (word_.load(std::memory_order_relaxed) & kThread) == own_thread(); }
  /// In a forked child only, where the holder no longer exists.
  void reset() {
    word_.store(0, std::memory_order_relaxed);
    sleepers_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kThread = 0x3fffffff;  ///< FUTEX_TID_MASK

  static uint32_t own_thread() {
    const uint32_t known = t_flags.thread;
    return __builtin_expect(known != 0, 1) ? known : ask_own_thread();
  }
  static uint32_t ask_own_thread();
  bool try_lock();
  void wait();
  bool sleep();
  void hand_over();
  void wake();

  /// 0: free; else the holder's thread id, in the kernel's form: FUTEX_WAITERS is set while
  /// real-time threads wait in it.
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};  ///< 1: others may sleep here
};

/// The lock is noted in the thread's flags first, so that one that a jump left can be released.
class LockGuard {
 public:
  explicit LockGuard(FutexLock& lock) : lock_(lock), place_(t_flags.lock_count) {
    if (place_ < ThreadFlags::kMostLocks) t_flags.locks[place_] = &lock;
    t_flags.lock_count = place_ + 1;
    in_order();
    lock_.lock();
  }
  ~LockGuard() {
    lock_.unlock();
    in_order();
    t_flags.lock_count = place_;
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  FutexLock& lock_;
  const uint32_t place_;
};

}  // namespace gpupeak::preload
