// The kernel as the explorer simulates it, in place of preload/base/syscalls.h.
#pragma once

// The real calls, but for those by which threads wait for each other or are told apart.
#define futex real_futex
#define membarrier real_membarrier
#define gettid real_gettid
#define tkill real_tkill
#define tgkill real_tgkill
#define sched_getscheduler real_sched_getscheduler
#include "../../../../preload/base/syscalls.h"
#undef futex
#undef membarrier
#undef gettid
#undef tkill
#undef tgkill
#undef sched_getscheduler

#include <cerrno>

#include "../../explorer.h"

namespace gpupeak::preload::sys {

inline long futex(const void* word, int operation, uint32_t value, const timespec* = nullptr) {
  if (operation == FUTEX_WAIT) return weak::futex_wait(word, value);
  if (operation == FUTEX_WAKE) weak::futex_wake(word, value);
  return 0;
}
inline long membarrier(long) {
  weak::fence_all_threads();
  return 0;
}
inline int gettid() {
  return weak::thread();
}
inline long tkill(int, int) {
  return 0;
}
inline long tgkill(int, int thread, int) {
  return weak::has_ended(thread) ? -ESRCH : 0;
}
inline long sched_getscheduler(int) {
  return 0;
}

}  // namespace gpupeak::preload::sys
