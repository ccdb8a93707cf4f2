// A lock for the preload's rare shared paths; it needs no initialisation and no allocator. It spins
// for a moment, then sleeps, so that a holder of lower priority can go on; a real-time thread lends
// the holder its priority. HOOK-SAFE. Hold it only inside a HookScope, so that a signal handler of
// the same thread never waits for it. Never hold it over a call into the loader: the loader's own
// lock may be held while one of ours is taken.
//
// Runtimes stop all their threads by a signal, and wait until each handler has begun. If the holder
// of a lock is stopped in its handler, a waiter with blocked signals would wait for good. So a lock
// is taken by one of two guards only: LockGuard blocks the holder's signals; with OpenLockGuard the
// waiter's signals stay open, and it does not wait for long (docs/design.md, "Locks and signals";
// the test locks.sites).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "base/hook_scope.h"
#include "base/signals_held.h"

namespace gpupeak::preload {

class FutexLock {
 public:
  void lock() {
    uint32_t nobody = 0;
    if (!word_.compare_exchange_strong(nobody, own_thread())) wait(kForGood);
  }
  /// False if the holder has not gone on for seconds.
  bool lock_in_time() {
    uint32_t nobody = 0;
    return __builtin_expect(word_.compare_exchange_strong(nobody, own_thread()), 1) ||
           wait_in_time();
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
    stalled_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr int kForGood = -1;
  static constexpr uint32_t kThread = 0x3fffffff;  ///< FUTEX_TID_MASK

  static uint32_t own_thread() {
    const uint32_t known = t_flags.thread;
    return __builtin_expect(known != 0, 1) ? known : ask_own_thread();
  }
  static uint32_t ask_own_thread();
  bool try_lock();
  bool wait(int naps);
  bool wait_in_time();
  bool sleep(int& naps);
  void hand_over();
  void wake();

  /// 0: free. Else the holder's thread id, in the kernel's form: FUTEX_WAITERS is set while
  /// real-time threads wait in the kernel.
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};  ///< 1: others may sleep here
  std::atomic<uint32_t> stalled_{0};   ///< a holder for whom somebody has waited in vain
};

/// Notes the lock in the thread's flags before it is taken, so that a lock can be released if a
/// jump has left its guard.
class NotedLock : NoCopies {
 public:
  explicit NotedLock(FutexLock& lock) : place_(t_flags.lock_count) {
    if (place_ < ThreadFlags::kMostLocks) t_flags.locks[place_] = &lock;
    t_flags.lock_count = place_ + 1;
    in_order();
  }
  ~NotedLock() {
    in_order();
    t_flags.lock_count = place_;
  }

 private:
  const uint32_t place_;
};

/// For a lock that the hooks of malloc and mmap need too. Two system calls, so not for hot paths.
class LockGuard {
 public:
  explicit LockGuard(FutexLock& lock) : noted_(lock), lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }

 private:
  const SignalsHeld held_;
  const NotedLock noted_;
  FutexLock& lock_;
};

/// For a lock that only calls of the driver take, and too often for two system calls each time. The
/// waiter holds no other lock of ours and has its signals open. If the holder does not go on (it is
/// stopped in a handler or by a debugger), the waiter goes on without the lock.
class OpenLockGuard {
 public:
  /// `wanted`: false takes no lock, and none is held.
  explicit OpenLockGuard(FutexLock& lock, bool wanted = true)
      : noted_(lock), lock_(lock), is_held_(wanted && lock.lock_in_time()) {}
  ~OpenLockGuard() {
    if (__builtin_expect(is_held_, 1)) lock_.unlock();
  }
  bool is_held() const { return __builtin_expect(is_held_, 1); }

 private:
  const NotedLock noted_;
  FutexLock& lock_;
  const bool is_held_;
};

// A lock that may be held while a function of another library runs; none of our other locks may be.
// After some time a waiter goes on without it, so it stops no thread for good. HOOK-SAFE; any
// thread may unlock.

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
