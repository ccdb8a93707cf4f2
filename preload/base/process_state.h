// Whether this process records: one page that all hooks look at. life/ decides what it says;
// docs/design.md, "Which processes record". HOOK-SAFE.
#pragma once

#include <cstdint>

#include "base/futex_lock.h"
#include "base/hot.h"

namespace gpupeak::preload {

enum class HostMode : uint32_t { kOff = 0, kCounters = 1, kSampled = 2, kFull = 3 };

/// One page that the kernel wipes in a forked child (MADV_WIPEONFORK): a child, however it was
/// made, finds `recording` 0 and writes nothing into its parent's log.
struct ProcessPage {
  uint32_t recording;       ///< 1: hooks log
  uint32_t host_recording;  ///< 1: the malloc and mmap hooks log too
  uint32_t decided;         ///< 1: ensure_started() has nothing to do
  HostMode host_mode;
  uint32_t only_writer;   ///< slot index + 1 of the one thread that logs for now; 0: several may
  uint32_t sampled_late;  ///< host_mode was kFull until the log reached its limit
  uint64_t generation;    ///< of this process's log, counted over forks; see ThreadFlags
  uint64_t whole_heap_generation;  ///< the same while each heap call is logged, by the TSC; else 0
  int pid;               ///< whose log it is; a vfork child, which has this page too, has another
  uint64_t initial_brk;  ///< brk at the log's start
  FutexLock missing_hooks;  ///< of hooks/missing_hooks, here so that a child finds it free
};
/// Never null: g_first_page until there is one of its own.
extern GPUPEAK_OWN ProcessPage* g_process;
extern bool g_children_know;      ///< a child finds the page wiped, however it was forked
extern ProcessPage g_first_page;  ///< all zero while it is used

inline bool recording() {
  return g_process->recording != 0;
}

/// Decides whether the process records, and opens its log if so. Cheap once decided. Defined in
/// life/process.cc, which uses all rooms above this one: a call of a fixed name where a pointer
/// set by life/ could be null before the library's constructor has run, and malloc is called then.
void start();
inline void ensure_started() {
  if (__builtin_expect(g_process->decided == 0, 0)) start();
}
/// What the malloc and mmap hooks ask at every call.
inline bool host_recording() {
  if (__builtin_expect(g_process->host_recording != 0, 1)) return true;
  if (g_process->decided == 0) {
    start();
    return g_process->host_recording != 0;
  }
  return false;
}

/// The process is about to use CUDA: opens its log if GPUPEAK_CHILDREN allows and it is not open
/// yet. Called by every CUDA hook; cheap but for the first. True if recording. In life/, as
/// start().
bool start_for_cuda();
inline bool ensure_started_for_cuda() {
  return __builtin_expect(g_process->recording != 0, 1) || start_for_cuda();
}

}  // namespace gpupeak::preload
