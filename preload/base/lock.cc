#include "base/lock.h"

#include <linux/futex.h>
#include <sched.h>

#include <cerrno>
#include <ctime>

#include "base/clock.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

/// A waiter wakes after this time and looks at the lock again, even if the holder has not woken it.
constexpr uint64_t kNapNs = 10'000'000;

/// Whether the calling thread's priority is worth lending. Sandboxes that allow the plain futex
/// calls kill the process for FUTEX_LOCK_PI, so a thread whose calls are filtered does not lend.
bool may_lend_priority() {
  const long policy = sys::sched_getscheduler(0);
  constexpr long kDeadline = 6;
  return (policy == SCHED_FIFO || policy == SCHED_RR || policy == kDeadline) && call_filters() == 0;
}

/// Waits while the kernel lends our priority to the holder. True: the lock is ours.
bool wait_lending(std::atomic<uint32_t>& word) {
  const uint64_t end = realtime_ns() + kNapNs;
  const timespec deadline{static_cast<int64_t>(end / kNsPerSecond),
                          static_cast<int64_t>(end % kNsPerSecond)};
  return sys::futex(&word, FUTEX_LOCK_PI, 0, &deadline) == 0;
}

}  // namespace

/// Remembers the id for the next time, but not in a vfork child: its flags are its parent's.
uint32_t FutexLock::ask_own_thread() {
  const auto thread = static_cast<uint32_t>(sys::gettid());
  if (sys::getpid() == g_process->pid) t_flags.thread = thread;
  return thread;
}

/// Reads the word in the order of all: sleep() has said before that it sleeps, and either it sees
/// here what unlock() has written, or unlock() sees the sleeper.
bool FutexLock::try_lock() {
  uint32_t nobody = 0;
  return word_.load() == 0 && word_.compare_exchange_strong(nobody, own_thread());
}

/// Sleeps for a nap, or until an unlock. A whole nap reduces `naps` by one. True: the lock is ours.
bool FutexLock::sleep(int& naps) {
  sleepers_.store(1);
  if (try_lock()) return true;  // unlocked just before unlock() could see that we are here
  const timespec nap{0, kNapNs};
  if (sys::futex(&sleepers_, FUTEX_WAIT, 1, &nap) != -ETIMEDOUT) return false;
  if (naps > 0) --naps;
  // The holder may be a thread that a jump took out of the lock, and that has ended before its
  // next hook.
  uint32_t held = word_.load(std::memory_order_relaxed);
  const auto holder = static_cast<int>(held & kThread);
  return holder != 0 && sys::tkill(holder, 0) == -ESRCH &&
         word_.compare_exchange_strong(held, own_thread());
}

bool FutexLock::wait(int naps) {
  for (int spins = 0; spins < 128; ++spins) {
    if (try_lock()) return true;
    arch::pause();
  }
  const bool lends = may_lend_priority();
  while (naps != 0) {
    if (try_lock()) return true;
    if (lends && wait_lending(word_)) return true;
    if (sleep(naps)) return true;
  }
  return try_lock();
}

/// Waits in naps: if the process is stopped meanwhile, that counts as one nap only. If another
/// thread has waited in vain for the same holder, one nap must do: otherwise each call would wait
/// for seconds while all other threads are stopped.
bool FutexLock::wait_in_time() {
  constexpr int kTwoSeconds = 200;
  const uint32_t holder = word_.load(std::memory_order_relaxed) & kThread;
  const bool is_stalled = holder != 0 && holder == stalled_.load(std::memory_order_relaxed);
  const bool ours = wait(is_stalled ? 1 : kTwoSeconds);
  stalled_.store(ours ? 0 : word_.load(std::memory_order_relaxed) & kThread,
                 std::memory_order_relaxed);
  return ours;
}

/// Real-time threads wait in the kernel; the kernel makes one of them the holder.
void FutexLock::hand_over() {
  // In a vfork child, our flags have its parent's id, and the kernel refuses. Then the waiters wake
  // by themselves.
  if (sys::failed(sys::futex(&word_, FUTEX_UNLOCK_PI, 0))) word_.store(0);
}

void FutexLock::wake() {
  constexpr uint32_t kAll = 0x7fffffff;
  sleepers_.store(0, std::memory_order_relaxed);  // whoever is about to sleep sees it in the kernel
  sys::futex(&sleepers_, FUTEX_WAKE, kAll);
}

bool TimedLock::wait(int naps) {
  constexpr timespec kNap{0, 50'000'000};
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
