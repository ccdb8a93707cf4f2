#include "life/process.h"

#include <sys/auxv.h>

#include <atomic>

#include "base/clock.h"
#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/kept_errno.h"
#include "base/loader.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/next_functions.h"
#include "base/proc_file.h"
#include "base/syscalls.h"
#include "gpupeak/pages.h"
#include "life/children.h"
#include "log/log.h"
#include "log/log_file.h"
#include "stack/module_map.h"
#include "stack/python_runtime.h"
#include "stack/python_sites.h"
#include "stack/trie.h"
#include "stack/unwinder.h"
#include "thread/heap_sample.h"
#include "thread/resident.h"
#include "thread/thread_slot.h"
#include "track/arena_objects.h"
#include "track/device_memory.h"
#include "track/frameworks.h"
#include "track/last_use.h"
#include "track/ledger.h"
#include "track/mapping.h"
#include "track/nvtx.h"
#include "track/phases.h"

// Symbols that only a sanitizer's runtime defines, and one that musl's C library does not define.
extern "C" {
void __asan_init() __attribute__((weak));
void __hwasan_init() __attribute__((weak));
void __lsan_init() __attribute__((weak));
void __lsan_do_leak_check() __attribute__((weak));
void __msan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
const char* gnu_get_libc_version() __attribute__((weak));
}

namespace gpupeak::preload {
namespace {

// Whether a program is of a kind that can be recorded.

/// True inside a program that gained privileges: nothing of ours happens there, not even a word.
bool is_privileged() {
  return getauxval(AT_SECURE) != 0;
}

/// Why nothing can be recorded in a program of this kind; empty: it can.
std::string_view unfit_because() {
  if (&gnu_get_libc_version == nullptr) return "its C library is not glibc";
  // A sanitizer takes the places that we need, and its shadow of all memory does not have ours.
  if (&__asan_init != nullptr || &__hwasan_init != nullptr || &__lsan_init != nullptr ||
      &__lsan_do_leak_check != nullptr || &__msan_init != nullptr || &__tsan_init != nullptr)
    return "it has a sanitizer's runtime";
  return {};
}

/// Whether a program of this kind is left alone for good.
bool must_be_silent() {
  return is_privileged() || !unfit_because().empty();
}

/// False if the program's calls of malloc go elsewhere: it defines malloc itself.
bool owns_malloc() {
  for (const char* name : {"malloc", "free"}) {
    const void* used = find_in("", name);
    if (used != nullptr && !is_own_code(reinterpret_cast<uintptr_t>(used))) return false;
  }
  return true;
}

constinit FutexLock g_start_lock;
constinit long g_open_error = 0;
constinit bool g_stopped_for_filter = false;  // in this process or the one it was forked from
constinit bool g_log_was_opened = false;      // in this process or the one it was forked from
constinit bool g_forked = false;              // of this process
constinit int g_start_pid = 0;
constinit uint64_t g_generation = 0;
constinit bool g_sees_programs_malloc = false;  // the program defines it itself

/// Forgets what track/ knows of the process, since another log begins.
void forget_tracked() {
  forget_device_memory();
  forget_uses();
  forget_ledger();
  reset_frameworks();
  reset_nvtx();
  forget_resident_memory();
}

/// For a process that was forked from one that recorded: nothing of that log is ours.
void forget_parent() {
  abandon_log_file();
  abandon_slots();
  forget_tracked();
  reset_arena_objects();
  share_pages();
  g_generation += 1;
}

/// For a process that has written a log before and was left (detach_process). No thread is in a
/// hook, but one may be within an arena's call, and hold that arena's lock.
void forget_last_log() {
  leave_definitions();
  leave_log_file();
  empty_slots();
  forget_tracked();
  drop_cached_stacks();  // nobody has seen what was unmapped meanwhile
}

/// Threads take new slots from here on.
void begin_generation(ProcessPage& page) {
  page.pid = sys::getpid();
  page.generation = ++g_generation;
}

/// Done once, if the heap is recorded or counted. Call it without the start lock, since it asks the
/// loader.
void look_for_allocators() {
  static constinit std::atomic<bool> looked{false};
  if (g_process->host_recording != 0 && !looked.exchange(true))
    g_sees_programs_malloc = take_over_allocators();
}

/// Opens the log and switches the hooks on. The caller holds the start lock, inside a HookScope.
void open_log(Reason reason) {
  const bool again = reason == Reason::kAttached && g_log_was_opened && !g_forked;
  const bool forked = g_log_was_opened && !again;
  if (again) forget_last_log();
  if (forked && g_process->counting == 0) forget_parent();
  Path path;
  expand_out_pattern(path);
  g_open_error = has_folder_of_children() ? make_own_folder(path.view()) : 0;
  if (g_open_error == 0)
    g_open_error = open_log_file(path.view(), describe_process(reason, forked || g_forked));
  if (g_open_error != 0) return;
  guard_log(&note_log_was_cut);
  if (!g_use_tsc) set_quality(GPUPEAK_Q_NO_TSC);
  if (!environment().complaint.view().empty()) set_quality(GPUPEAK_Q_BAD_ENVIRONMENT);
  restart_definitions();
  const bool was_counted = g_process->counting != 0;
  if (forked || was_counted || again) redefine_modules(forked);
  if (forked || again) {
    redefine_python_frames();
    redefine_nodes();
  }
  define_facts();
  begin_watching_uses();
  if (forked || was_counted || again) redefine_python_runtimes(forked);
  g_log_was_opened = true;

  ProcessPage& page = *g_process;
  if (!was_counted) begin_generation(page);
  page.counting = 0;
  page.only_writer = 0;
  allow_only_writer(!environment().stamp_all);
  begin_heap_record(page, reason == Reason::kCountedEnough);
  begin_listening(page);
  page.recording = 1;
  std::atomic_ref<uint32_t>(page.host_recording)
      .store(page.host_mode != HostMode::kOff ? 1 : 0, std::memory_order_release);
  if (was_counted) log_counted_mappings();
}

/// Counts without a log: should the process turn out to be of interest, what it holds is known.
void begin_counting() {
  if (environment().host_mode == GPUPEAK_HOST_OFF) return;
  if (g_forked) {
    forget_parent();
    reset_counted_mappings();
  }
  ProcessPage& page = *g_process;
  begin_generation(page);
  page.host_mode = HostMode::kCounters;
  page.counting = 1;
  page.counted_most = g_forked && g_log_was_opened ? kCountedForkBytes : kCountedBytes;
  page.counted_heap_generation = page.generation;
  std::atomic_ref<uint32_t>(page.host_recording).store(1, std::memory_order_release);
}

/// Whether a process that does not record will do so once it uses CUDA.
bool may_open_log() {
  return environment().children != Children::kNone && g_open_error == 0 && !must_be_silent();
}

bool is_asked_for() {
  const Environment& e = environment();
  return e.children == Children::kAll || e.run_pid == 0 || e.run_pid == sys::getpid();
}

/// Called with the lock held while nothing is decided: at the start, and in a forked child. False:
/// perhaps libc has not begun, so ask again at the next call.
bool decide() {
  if (g_process == &g_first_page) {
    // A page that the kernel wipes in a forked child. Before Linux 4.14 the kernel cannot: then it
    // is an ordinary page, which hooks/process.cc's fork handler clears.
    void* const page = map_pages(kPageBytes);
    if (page == nullptr) return true;
    g_children_know = !sys::failed(sys::madvise(page, kPageBytes, MADV_WIPEONFORK));
    g_process = static_cast<ProcessPage*>(page);
  }
  if (came_late()) {  // attach_process() opens the log
    g_forked = g_start_pid != 0;
    g_start_pid = sys::getpid();
    return true;
  }
  if (is_privileged()) return true;
  if (!read_environment()) return false;
  if (must_be_silent()) return true;
  const bool forked = g_start_pid != 0;
  if (!forked) remember_own_variables();
  if (forked) abandon_log_file();
  g_start_pid = sys::getpid();
  g_forked = forked;
  if (forked ? environment().children == Children::kAll : is_asked_for()) {
    open_log(Reason::kProgramStart);
  } else if (is_filed_as_child() && environment().children == Children::kGpu) {
    begin_counting();
  }
  return true;
}

void say_what_is_wrong() {
  static int said_by = 0;
  if (said_by == sys::getpid()) return;
  said_by = sys::getpid();
  if (const std::string_view because = unfit_because(); !because.empty())
    return say(Text<128>("this program is not recorded: ", because));
  if (!environment().complaint.view().empty()) say(environment().complaint.view());
  if (g_open_error != 0) {
    Path path;
    expand_out_pattern(path);
    say(Text<1024>("cannot write the log ", path, ": ", error_text(g_open_error),
                   ". Nothing is recorded; choose another place with GPUPEAK_OUT"));
  }
  if (log_of_elsewhere_is_in_the_way())
    say(Path("a log of another container or machine, which may still run, has the wanted name. ",
             "This one is ", log_path()));
}

/// Writes what the log and the counters page say at the end.
void close_books() {
  sample(Moment::kAtEnd);
  log_all_uses();
  flush_own_slot();
  end_definitions();
  gpupeak_counters_page& page = counters();
  page.end_ticks = ticks();
  page.end_monotonic_ns = monotonic_ns();
  trim_log_file();
}

}  // namespace

bool is_stopped_for_filter() {
  return g_stopped_for_filter;
}

void start() {
  if (g_stopped_for_filter) {  // a child's getpid() might end it
    g_process->decided = 1;
    return;
  }
  HookScope scope;
  if (!scope.entered()) return;
  const KeptErrno program_errno;
  const int pid = sys::getpid();
  if (g_start_pid != 0 && g_start_pid != pid) {  // a forked child: nobody holds it
    g_start_lock.reset();
    t_flags.thread = 0;
    look_whether_loader_is_held();
    leave_unwinder_in_child();
  }
  next();  // asks the loader at first, so not with the lock held
  {
    LockGuard guard(g_start_lock);
    if (g_process->decided == 0 && decide()) g_process->decided = 1;
    if (g_process->decided == 0) count(&gpupeak_counters_page::early_calls);
    forget_early_variables();
  }
  look_for_allocators();
}

bool may_record() {
  ensure_started();
  return recording() || (g_process->decided != 0 && may_open_log());
}

bool start_for_cuda() {
  ensure_started();
  if (recording() || g_process->decided == 0) return recording();
  if (g_stopped_for_filter) return false;
  if (!may_open_log()) {
    if (!unfit_because().empty() && environment().children != Children::kNone) say_what_is_wrong();
    return false;
  }
  {
    HookScope scope;
    if (!scope.entered()) return false;
    const KeptErrno program_errno;
    bool tried = false;
    {
      LockGuard guard(g_start_lock);
      if (!recording() && g_open_error == 0) {
        remember_stderr();
        open_log(Reason::kFirstCudaCall);
        tried = true;
      }
    }
    look_for_allocators();
    if (tried) say_what_is_wrong();
  }
  if (!recording()) return false;
  load_unwinder();
  enter_process_phase("main");
  return true;
}

void open_counted_log(size_t pending_bytes) {
  const KeptErrno program_errno;
  LockGuard guard(g_start_lock);
  if (g_process->counting != 0 && !recording()) {
    remember_stderr();
    open_log(Reason::kCountedEnough);
    if (recording()) begin_window(*g_process, environment().host_mode, pending_bytes);
    g_process->counting = 0;  // even if the log cannot be opened: nobody asks again
  }
}

void finish_start() {
  if (came_late()) {
    g_libraries_start = false;
    set_environment_of_attached({});
  }
  ensure_started();
  if (came_late()) return;
  if (g_process->decided == 0 || is_privileged()) return;
  remember_stderr();
  if (must_be_silent()) {
    if (is_asked_for()) say_what_is_wrong();
    return;
  }
  if (recording() || g_open_error != 0) say_what_is_wrong();
  if (g_process->counting != 0 && owns_malloc()) {
    g_hears_loader.store(true, std::memory_order_relaxed);
    do_without_unwinder();
  }
  if (!recording()) return;
  if (environment().run_pid == 0) mark_children();
  // The program's own malloc may not be ready before main, and the loader would call it. Then the
  // unwinder is loaded at the first device call; device calls need it most.
  if (owns_malloc()) {
    g_hears_loader.store(true, std::memory_order_relaxed);  // the loader takes the first malloc too
    load_unwinder();
  } else if (!g_sees_programs_malloc) {
    set_quality(GPUPEAK_Q_FOREIGN_MALLOC);
  }
  enter_process_phase("start");
}

void stop_for_filter() {
  if (g_stopped_for_filter) return;
  if (recording()) {
    say("the program confines itself by a filter of system calls that ends it for what recording "
        "takes: from here on nothing is recorded");
    HookScope scope;
    if (scope.entered()) {
      set_quality(GPUPEAK_Q_DISK_FULL);  // the log cannot go on
      close_books();
    }
  }
  g_stopped_for_filter = true;
  g_process->counting = 0;
  g_process->host_recording = 0;
  g_process->whole_heap_generation = g_process->counted_heap_generation = 0;
  g_process->window_request = nullptr;
  g_process->recording = 0;
}

gpupeak_attach_answer attach_process(std::string_view out_pattern, long& error) {
  if (!came_late()) return GPUPEAK_ATTACH_PRELOADED;
  if (recording()) return GPUPEAK_ATTACH_ALREADY;
  if (must_be_silent() || g_stopped_for_filter || g_process == &g_first_page)
    return GPUPEAK_ATTACH_UNFIT;
  if (!take_over_allocators()) return GPUPEAK_ATTACH_OWN_MALLOC;
  do_without_unwinder();
  HookScope scope;
  if (!scope.entered()) return GPUPEAK_ATTACH_BUSY;
  LockGuard guard(g_start_lock);
  if (recording()) return GPUPEAK_ATTACH_ALREADY;
  set_environment_of_attached(out_pattern);
  open_log(Reason::kAttached);
  error = g_open_error;
  return recording() ? GPUPEAK_ATTACH_DONE : GPUPEAK_ATTACH_NO_LOG;
}

bool detach_process() {
  if (!came_late() || !recording()) return false;
  HookScope scope;
  if (!scope.entered()) return false;
  ProcessPage& page = *g_process;
  if (page.window != 0) close_window(page);
  page.window_request = nullptr;
  page.host_recording = 0;
  page.whole_heap_generation = page.counted_heap_generation = 0;
  counters().ended = 1;
  close_books();
  page.recording = 0;
  unguard_log();
  return true;
}

bool was_attached_before() {
  return came_late() && g_log_was_opened;
}

void end_process_at_once() {
  if (!recording() || sys::getpid() != g_process->pid) return;  // a vfork child shares our memory
  HookScope scope;
  if (!scope.entered() || counters().ended != 0) return;
  counters().ended = 1;
  if (is_short_of_stack()) return;
  close_books();
}

void end_process() {
  if (!recording()) return;
  enter_process_phase("exit");
  {
    HookScope scope;
    if (!scope.entered()) return;
    define_lost_names();
    counters().ended = 1;
    close_books();
  }
  if (log_was_cut()) {
    return say(Path(log_path(),
                    log_is_as_long_as_it_was()
                        ? " could not be written any more: the disk is full, or a quota ended. "
                        : " was cut by somebody else while it was written. ",
                    "What was logged since is lost"));
  }
  print_exit_lines();
}

}  // namespace gpupeak::preload
