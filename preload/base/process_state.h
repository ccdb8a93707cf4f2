// Says whether this process records: one page that all hooks look at first. life/process.cc decides
// this once in each process, and once again in each forked child; docs/design.md, "Which processes
// record". HOOK-SAFE.
//
//   decided 0                           nothing is known yet: the hook calls start()
//   decided 1, recording 0              the hook passes the call through
//   decided 1, recording 1              the hook records
//   decided 1, counting 1               no log yet, only sums: a child that may use a GPU later
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "base/lock.h"

namespace gpupeak::preload {

/// What is logged of the heap for now. kFull: every block; kSampled: large blocks and a sample;
/// kOthersSampled: the same of what is allocated inside driver calls and as libraries start, and
/// every other block.
enum class HostMode : uint32_t {
  kOff = 0,
  kCounters = 1,
  kSampled = 2,
  kFull = 3,
  kOthersSampled = 4
};
/// Until the program's own code begins: initialisers of libraries run, of which cuBLAS's allocate a
/// hundred thousand blocks.
extern GPUPEAK_OWN std::atomic<bool> g_libraries_start;
inline bool libraries_start() {
  return g_libraries_start.load(std::memory_order_relaxed);
}
/// Which live blocks have a mark (thread/heap_sample).
enum class Marked : uint32_t { kNothing = 0, kLogged = 1, kUnlogged = 2 };

/// One page that the kernel wipes in a forked child (MADV_WIPEONFORK). So a child finds `recording`
/// 0, however it was forked, and writes nothing into its parent's log.
struct ProcessPage {
  uint32_t recording;       ///< 1: hooks log
  uint32_t host_recording;  ///< 1: the malloc and mmap hooks log too
  uint32_t decided;         ///< 1: ensure_started() has nothing to do
  HostMode host_mode;
  uint32_t only_writer;  ///< slot index + 1 of the one thread that logs for now; 0: several may
  Marked marked;
  uint64_t generation;  ///< number of this process's log, counted over forks; see ThreadFlags
  uint64_t whole_heap_generation;    ///< `generation` while each heap call is logged; else 0
  uint64_t counted_heap_generation;  ///< `generation` while most are only counted; else 0
  const uint64_t* window_request;    ///< requests, in the counters page; nullptr: nobody may ask
  uint64_t answered_request;         ///< the value that was last looked at
  // Of windows (thread/heap_sample).
  uint32_t answering;  ///< a thread is answering a request
  uint32_t window;     ///< number of the open window; 0: none is open
  uint64_t windows;    ///< windows begun so far
  // Of thread/heap_sample, which changes them during the run.
  uint32_t is_auto;                     ///< GPUPEAK_HOST=auto
  uint32_t uses_cuda;                   ///< it has called cuInit
  uint32_t goes_over;                   ///< a thread has begun to change the mode to kSampled
  uint64_t sample_bytes;                ///< mean bytes between two samples
  uint64_t sampled_blocks, thinner_at;  ///< in the sample so far; the count that makes it thinner
  uint64_t sample_start_ns;             ///< when the sample began,
  uint64_t sample_start_spent_ns;       ///< and what recording had cost by then
  uint64_t heap_start_ns, first_nodes, written_bytes;
  uint64_t lined_blocks;  ///< small blocks that got Python lines while all blocks were logged
  int pid;            ///< the owner of the log; a vfork child has this page too, but another pid
  uint32_t counting;  ///< 1: no log yet, but the heap and mappings are counted; docs/design.md
  uint64_t counted_most;    ///< then: bytes of both that it may hold without a log
  uint64_t initial_brk;     ///< brk at the log's start
  FutexLock missing_hooks;  ///< of hooks/cuda_lookup; here, so that a child finds it free
};
/// What the heap's recording is now, which threads change while others allocate. Whoever reads a
/// mode or a kind of marks also sees what was made ready for it: a mode is set after `marked`, and
/// `marked` after the marks' table.
inline HostMode host_mode_of(const ProcessPage& process) {
  HostMode mode;
  __atomic_load(&process.host_mode, &mode, __ATOMIC_ACQUIRE);
  return mode;
}
inline Marked marked_in(const ProcessPage& process) {
  Marked marked;
  __atomic_load(&process.marked, &marked, __ATOMIC_ACQUIRE);
  return marked;
}
inline void set_marked(ProcessPage& process, Marked marked) {
  __atomic_store(&process.marked, &marked, __ATOMIC_RELEASE);
}
/// Never null: g_first_page until the process has a page of its own.
extern GPUPEAK_OWN ProcessPage* g_process;
extern bool g_children_know;      ///< a child finds the page wiped, however it was forked
extern ProcessPage g_first_page;  ///< all zero while it is used

/// Whether somebody outside has asked to begin or end recording the heap.
inline __attribute__((always_inline)) bool is_window_asked_for(const ProcessPage& process) {
  const uint64_t* const request = __atomic_load_n(&process.window_request, __ATOMIC_RELAXED);
  return request != nullptr &&
         __builtin_expect(__atomic_load_n(request, __ATOMIC_RELAXED) != process.answered_request,
                          0);
}
/// Answers the request, unless another thread does or a hook is open. Defined in
/// thread/heap_sample.cc and called by hooks of rooms that do not know that file.
void answer_request();

inline bool recording() {
  return g_process->recording != 0;
}

/// Decides whether the process records, and opens its log if so. Cheap once decided. Defined in
/// life/process.cc, which uses all rooms above this one. It is called by a fixed name: a pointer
/// that life/ sets could be null before the library's constructor has run, and malloc is called
/// even then.
void start();
inline void ensure_started() {
  if (__builtin_expect(g_process->decided == 0, 0)) start();
}
/// The malloc and mmap hooks ask this at every call.
inline bool host_recording() {
  if (__builtin_expect(g_process->host_recording != 0, 1)) return true;
  if (g_process->decided == 0) {
    start();
    return g_process->host_recording != 0;
  }
  return false;
}

/// Opens the log of a process that was only counted (ProcessPage::counting), once it holds enough
/// to be worth a log. From here on its heap is recorded. `pending_bytes`: of the block that is
/// counted already and will be recorded. HOOK-SAFE, inside a HookScope. In life/, as start().
void open_counted_log(size_t pending_bytes);
constexpr uint64_t kCountedBytes = 16 << 20;
/// For a child forked by a process that records. The child has what its parent loaded and read for
/// call sites, so a log costs less, and is opened earlier: less of what it holds goes without a
/// call site.
constexpr uint64_t kCountedForkBytes = 1 << 20;

/// Call it when the process is about to use CUDA: opens the log if GPUPEAK_CHILDREN allows and it
/// is not open yet. True if recording. Every CUDA hook calls it; only the first call is slow. In
/// life/, as start().
bool start_for_cuda();
inline bool ensure_started_for_cuda() {
  if (is_window_asked_for(*g_process)) answer_request();
  return __builtin_expect(g_process->recording != 0, 1) || start_for_cuda();
}

}  // namespace gpupeak::preload
