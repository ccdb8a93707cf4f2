// Whether this process records: one page that all hooks look at first. life/process.cc decides,
// once a process and once again in each forked child; docs/design.md, "Which processes record".
// HOOK-SAFE.
//
//   decided 0                           nothing is known yet: the hook calls start()
//   decided 1, recording 0              the hook passes the call through
//   decided 1, recording 1              the hook records
//   decided 1, counting 1               no log yet, only sums: a child that may use a GPU later
#pragma once

#include <cstdint>

#include "base/futex_lock.h"
#include "base/hot.h"

namespace gpupeak::preload {

/// What is logged of the heap for now: kFull every block, kSampled large ones and a sample.
enum class HostMode : uint32_t { kOff = 0, kCounters = 1, kSampled = 2, kFull = 3 };
/// Which live blocks have a mark (thread/block_marks).
enum class Marked : uint32_t { kNothing = 0, kLogged = 1, kUnlogged = 2 };

/// One page that the kernel wipes in a forked child (MADV_WIPEONFORK): a child, however it was
/// made, finds `recording` 0 and writes nothing into its parent's log.
struct ProcessPage {
  uint32_t recording;       ///< 1: hooks log
  uint32_t host_recording;  ///< 1: the malloc and mmap hooks log too
  uint32_t decided;         ///< 1: ensure_started() has nothing to do
  HostMode host_mode;
  uint32_t only_writer;  ///< slot index + 1 of the one thread that logs for now; 0: several may
  Marked marked;
  uint64_t generation;  ///< of this process's log, counted over forks; see ThreadFlags
  uint64_t whole_heap_generation;    ///< the same while each heap call is logged; else 0
  uint64_t counted_heap_generation;  ///< the same while most are counted alone; else 0
  const uint64_t* window_request;  ///< the log's word of what is asked for; nullptr: nobody may ask
  uint64_t answered_request;       ///< what it said when it was last looked at
  // Of thread/heap_windows.
  uint32_t answering;  ///< a thread is about to answer a request
  uint32_t window;     ///< number of the open one; 0: none is
  uint64_t windows;    ///< begun so far
  // Of thread/heap_sample, which changes them as the process goes on.
  uint32_t is_auto;        ///< GPUPEAK_HOST=auto
  uint32_t goes_over;      ///< a thread has begun to set kSampled in place of kFull
  uint64_t sample_bytes;   ///< mean gap of a sample
  uint64_t sampled_blocks, thinner_at;  ///< in it so far; how many make it thinner
  uint64_t sample_start_ns;             ///< when it began,
  uint64_t sample_start_spent_ns;       ///< and what recording had cost by then
  uint64_t heap_start_ns, first_nodes, written_bytes;
  uint64_t lined_blocks;  ///< small ones that got their Python lines while all were logged
  int pid;               ///< whose log it is; a vfork child, which has this page too, has another
  uint32_t counting;     ///< 1: no log yet, but the heap and mappings are counted; docs/design.md
  uint64_t counted_most;  ///< then: what it may hold of both without a log, bytes
  uint64_t initial_brk;  ///< brk at the log's start
  FutexLock missing_hooks;  ///< of hooks/missing_hooks, here so that a child finds it free
};
/// Never null: g_first_page until there is one of its own.
extern GPUPEAK_OWN ProcessPage* g_process;
extern bool g_children_know;      ///< a child finds the page wiped, however it was forked
extern ProcessPage g_first_page;  ///< all zero while it is used

/// Whether somebody has asked from outside that the recording of the heap begins or ends.
inline __attribute__((always_inline)) bool is_window_asked_for(const ProcessPage& process) {
  const uint64_t* const request = __atomic_load_n(&process.window_request, __ATOMIC_RELAXED);
  return request != nullptr && __builtin_expect(__atomic_load_n(request, __ATOMIC_RELAXED) !=
                                                    process.answered_request,
                                                0);
}
/// Does it, unless another thread does, or a hook is open. Defined in thread/heap_windows.cc: the
/// hooks of rooms that do not know it ask.
void answer_request();

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

/// A process that is only counted (ProcessPage::counting) has come to hold as much as is worth a
/// log, which it gets; from here on its heap is recorded. `pending_bytes`: of the block that is
/// counted already and will be recorded. HOOK-SAFE, inside a HookScope. In life/, as start().
void open_counted_log(size_t pending_bytes);
constexpr uint64_t kCountedBytes = 16 << 20;
/// Of a child forked by a process that records: it has what that one loaded and read for its call
/// sites, so that less is worth a log, and less of what it holds goes without a call site.
constexpr uint64_t kCountedForkBytes = 1 << 20;

/// The process is about to use CUDA: opens its log if GPUPEAK_CHILDREN allows and it is not open
/// yet. Called by every CUDA hook; cheap but for the first. True if recording. In life/, as
/// start().
bool start_for_cuda();
inline bool ensure_started_for_cuda() {
  if (is_window_asked_for(*g_process)) answer_request();
  return __builtin_expect(g_process->recording != 0, 1) || start_for_cuda();
}

}  // namespace gpupeak::preload
