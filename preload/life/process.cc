#include "life/process.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/futex_lock.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "life/summary.h"
#include "log/cut_guard.h"
#include "log/definitions.h"
#include "log/log.h"
#include "log/log_file.h"
#include "log/log_place.h"
#include "stack/module_map.h"
#include "stack/python_frames.h"
#include "stack/python_runtime.h"
#include "stack/trie.h"
#include "stack/unwinder.h"
#include "thread/sample.h"
#include "thread/sampled_set.h"
#include "thread/thread_slot.h"
#include "track/device_memory.h"
#include "track/ledger.h"
#include "track/nvtx.h"
#include "track/ort_sessions.h"
#include "track/phases.h"
#include "track/pool_objects.h"
#include "track/xla_programs.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

// What only a sanitizer's runtime defines, and what musl's C library does not.
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

constinit FutexLock g_start_lock;
constinit long g_open_error = 0;
constinit bool g_stopped_for_filter = false;  // in this process or the one it was forked from
constinit bool g_log_was_opened = false;      // in this process or the one it was forked from
constinit int g_start_pid = 0;
constinit uint64_t g_generation = 0;

/// What a log's start may find.
enum class Reason { kProgramStart, kFirstCudaCall };

std::string_view program_name(char* buffer, size_t capacity) {
  const long bytes = sys::readlink("/proc/self/exe", buffer, capacity);
  if (bytes <= 0) return "unknown";
  const std::string_view path(buffer, static_cast<size_t>(bytes));
  return tail(path, path.rfind('/') + 1);
}

std::string_view host_name() {
  static utsname names;
  sys::call6(SYS_uname, reinterpret_cast<long>(&names), 0, 0, 0, 0, 0);
  return names.nodename;
}

/// Whether this process has its log among those of the children: `run` started another one.
bool is_filed_as_child() {
  const Environment& e = environment();
  return !e.children_pattern.view().empty() && e.run_pid != 0 && e.run_pid != sys::getpid();
}

/// The folder of the children is made by the first of them.
void make_folder_of(const Path& path) {
  Path folder;
  folder.add(head(path.view(), path.view().rfind('/')));
  sys::call6(SYS_mkdirat, AT_FDCWD, reinterpret_cast<long>(folder.c_str()), 0777, 0, 0, 0);
}

/// GPUPEAK_OUT with %n name, %p pid, %r rank (none: its dot goes too), %h host, %% expanded;
/// absolute.
void expand_out_pattern(Path& path) {
  const std::string_view pattern = is_filed_as_child() ? environment().children_pattern.view()
                                                       : environment().out_pattern.view();
  if (pattern.empty() || pattern[0] != '/') {
    char folder[4096];
    const long bytes =
        sys::call6(SYS_getcwd, reinterpret_cast<long>(folder), sizeof folder, 0, 0, 0, 0);
    if (bytes > 1) path.add(std::string_view(folder, static_cast<size_t>(bytes) - 1)).add("/");
  }
  char name[4096];
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      path.add(head(tail(pattern, i), 1));
      continue;
    }
    switch (pattern[++i]) {
      case 'n':
        path.add(program_name(name, sizeof name));
        break;
      case 'p':
        path.add(static_cast<uint64_t>(sys::getpid()));
        break;
      case 'h':
        path.add(host_name());
        break;
      case 'r':
        if (environment().rank >= 0)
          path.add(static_cast<uint64_t>(environment().rank));
        else
          path.drop_last('.');
        break;
      case '%':
        path.add("%");
        break;
      default:
        path.add(head(tail(pattern, i - 1), 2));
        break;
    }
  }
}

void define_fact(std::string_view key, std::string_view value) {
  Record record(GPUPEAK_DEF_FACT);
  define(record.s(key).s(value));
}

void define_facts() {
  static char buffer[65536];
  const size_t bytes = read_file("/proc/self/cmdline", buffer, sizeof buffer - 1);
  buffer[bytes] = 0;
  for (size_t at = 0; at < bytes; at += strlen(buffer + at) + 1) define_fact("arg", buffer + at);
  const long exe = sys::readlink("/proc/self/exe", buffer, sizeof buffer);
  if (exe > 0) define_fact("exe", {buffer, static_cast<size_t>(exe)});
  const long cwd =
      sys::call6(SYS_getcwd, reinterpret_cast<long>(buffer), sizeof buffer, 0, 0, 0, 0);
  if (cwd > 1) define_fact("cwd", {buffer, static_cast<size_t>(cwd) - 1});
  define_fact("host", host_name());
  // Logs of one boot share their monotonic clock, also those of different containers.
  const size_t boot = read_file("/proc/sys/kernel/random/boot_id", buffer, sizeof buffer);
  if (boot > 1) define_fact("boot", {buffer, boot - 1});
}

/// A page that a forked child finds wiped. Without the kernel's help (before Linux 4.14) an
/// ordinary one: hooks/process.cc's fork handler then clears it.
ProcessPage* new_process_page() {
  void* at = map_pages(4096);
  if (at == nullptr) return nullptr;
  g_children_know = !sys::failed(sys::madvise(at, 4096, MADV_WIPEONFORK));
  return static_cast<ProcessPage*>(at);
}

/// This process was forked from one that recorded: nothing of that log is ours.
void forget_parent() {
  abandon_log_file();
  abandon_slots();
  forget_device_memory();
  forget_ledger();
  reset_ort_sessions();
  reset_pool_objects();
  reset_xla_programs();
  reset_nvtx();
  g_generation += 1;
}

gpupeak_file_header describe_process(Reason reason, bool forked) {
  gpupeak_file_header header{};
  header.version = GPUPEAK_LOG_VERSION;
  header.clock = init_clock();
  header.host_mode = environment().host_mode;
  const Instant start = now_by_all_clocks();
  header.start_ticks = start.ticks;
  header.start_monotonic_ns = start.monotonic_ns;
  header.start_realtime_ns = start.realtime_ns;
  header.pid = static_cast<uint32_t>(sys::getpid());
  header.ppid = static_cast<uint32_t>(sys::getppid());
  header.rank = environment().rank;
  header.run_pid = static_cast<uint32_t>(environment().run_pid);
  if (reason == Reason::kFirstCudaCall || forked) header.flags |= GPUPEAK_FLAG_LATE_START;
  if (forked) header.flags |= GPUPEAK_FLAG_FORKED;
  header.process_start_time = process_start_time(static_cast<int>(header.pid));
  header.sample_bytes =
      environment().host_mode == GPUPEAK_HOST_SAMPLED ? environment().sample_bytes : 0;
  header.initial_brk_bytes = g_process->initial_brk = sys::brk(0);
  strcpy(header.tool_version, GPUPEAK_VERSION);
  return header;
}

/// Opens the log and switches the hooks on. Holds the start lock, inside a HookScope.
void open_log(Reason reason) {
  const bool forked = g_log_was_opened;
  if (forked) forget_parent();
  Path path;
  expand_out_pattern(path);
  if (is_filed_as_child()) make_folder_of(path);
  g_open_error = open_log_file(path.view(), describe_process(reason, forked));
  if (g_open_error != 0) return;
  guard_log(reinterpret_cast<SetAction>(find_next("sigaction")), &note_log_was_cut);
  if (!g_use_tsc) set_quality(GPUPEAK_Q_NO_TSC);
  if (!environment().complaint.view().empty()) set_quality(GPUPEAK_Q_BAD_ENVIRONMENT);
  restart_definitions();
  if (forked) {
    redefine_modules();
    redefine_python_frames();
    redefine_nodes();
  }
  define_facts();
  if (forked) redefine_python_runtimes();
  g_log_was_opened = true;

  ProcessPage& page = *g_process;
  page.pid = sys::getpid();
  page.generation = ++g_generation;
  page.host_mode = static_cast<HostMode>(environment().host_mode);
  page.only_writer = 0;
  allow_only_writer(!environment().stamp_all);
  if (page.host_mode == HostMode::kSampled && !init_sampling(environment().sample_bytes)) {
    page.host_mode = HostMode::kCounters;
  }
  page.recording = 1;
  if (page.host_mode == HostMode::kFull && g_use_tsc) page.whole_heap_generation = page.generation;
  std::atomic_ref<uint32_t>(page.host_recording)
      .store(page.host_mode != HostMode::kOff ? 1 : 0, std::memory_order_release);
}

bool is_asked_for() {
  const Environment& e = environment();
  return e.children == Children::kAll || e.run_pid == 0 || e.run_pid == sys::getpid();
}

/// A sanitizer takes the places that we need, and has a shadow of all memory that ours is not in.
bool has_sanitizer() {
  return &__asan_init != nullptr || &__hwasan_init != nullptr || &__lsan_init != nullptr ||
         &__lsan_do_leak_check != nullptr || &__msan_init != nullptr || &__tsan_init != nullptr;
}

/// True inside a program that gained privileges: nothing of ours happens there, not even a word.
bool is_privileged() {
  return getauxval(AT_SECURE) != 0;
}

/// Why nothing can be recorded in a program of this kind; empty: it can.
std::string_view unfit_because() {
  if (&gnu_get_libc_version == nullptr) return "its C library is not glibc";
  if (has_sanitizer()) return "it has a sanitizer's runtime";
  return {};
}

/// Whether a program of this kind is left alone for good.
bool must_be_silent() {
  return is_privileged() || !unfit_because().empty();
}

/// Called with the lock held when nothing is decided: at the start, and in a forked child.
void decide() {
  if (g_process == &g_first_page) {
    ProcessPage* page = new_process_page();
    if (page == nullptr) {
      g_first_page.decided = 1;
      return;
    }
    g_process = page;
  }
  if (is_privileged()) {
    g_process->decided = 1;
    return;
  }
  if (!read_environment()) return;  // libc is not there yet: ask again at the next call
  if (must_be_silent()) {
    g_process->decided = 1;
    return;
  }
  const bool forked = g_start_pid != 0;
  if (forked) abandon_log_file();
  g_start_pid = sys::getpid();
  if (forked ? environment().children == Children::kAll : is_asked_for())
    open_log(Reason::kProgramStart);
  g_process->decided = 1;
}

/// Says to the programs that this one will start that they were not the one asked for. What setenv
/// does, but without malloc: the program's own may not be ready before main.
void mark_children() {
  if (environ == nullptr) return;
  constexpr std::string_view kName = "GPUPEAK_RUN_PID=";
  constexpr size_t kEntryBytes = 32;
  size_t count = 0;
  while (environ[count] != nullptr) ++count;
  const size_t list_bytes = (count + 2) * sizeof(char*);
  void* at = map_pages((list_bytes + kEntryBytes + 4095) / 4096 * 4096);
  if (at == nullptr) return;
  char** list = static_cast<char**>(at);
  size_t n = 0;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (strncmp(*entry, kName.data(), kName.size()) != 0) list[n++] = *entry;
  }
  Text<kEntryBytes> own;
  own.add(kName).add(static_cast<uint64_t>(sys::getpid()));
  list[n] = static_cast<char*>(at) + list_bytes;
  memcpy(list[n], own.c_str(), own.view().size() + 1);
  environ = list;
}

/// False if the program's calls of malloc go elsewhere: it defines malloc itself.
bool owns_malloc() {
  const void* used = find_first("malloc");
  return used == nullptr || is_own_code(reinterpret_cast<uintptr_t>(used));
}

void say_what_is_wrong() {
  static int said_by = 0;
  if (said_by == sys::getpid()) return;
  said_by = sys::getpid();
  if (const std::string_view because = unfit_because(); !because.empty()) {
    Text<128> line;
    say(line.add("this program is not recorded: ").add(because).view());
    return;
  }
  if (!environment().complaint.view().empty()) say(environment().complaint.view());
  if (g_open_error != 0) {
    Text<1024> line;
    Path path;
    expand_out_pattern(path);
    line.add("cannot write the log ").add(path.view()).add(": ").add(error_text(g_open_error));
    say(line.add(". Nothing is recorded; choose another place with GPUPEAK_OUT").view());
  }
  if (log_of_elsewhere_is_in_the_way()) {
    Path line;
    line.add("a log of another container or machine, which may still run, has the wanted name. ");
    say(line.add("This one is ").add(log_path()).view());
  }
}

/// What the counters page says of an end, and the log's own.
void close_books() {
  flush_own_slot();
  gpupeak_counters_page& page = counters();
  page.end_ticks = ticks();
  page.end_monotonic_ns = monotonic_ns();
  page.self_bytes = self_bytes();
  page.rss_peak_bytes = peak_resident_bytes();
  trim_log_file();
}

}  // namespace

bool is_stopped_for_filter() {
  return g_stopped_for_filter;
}

void start() {
  if (g_stopped_for_filter) {  // in a child: to ask for its number may end it
    g_process->decided = 1;
    return;
  }
  HookScope scope;
  if (!scope.entered()) return;
  const int saved_errno = errno;
  const int pid = sys::getpid();
  if (g_start_pid != 0 && g_start_pid != pid) {  // a forked child: nobody holds it
    g_start_lock.reset();
    t_flags.thread = 0;
  }
  {
    LockGuard guard(g_start_lock);
    if (g_process->decided == 0) decide();
    if (g_process->decided == 0) count(&gpupeak_counters_page::early_calls);
  }
  errno = saved_errno;
}

bool may_record() {
  ensure_started();
  return recording() || (g_process->decided != 0 && environment().children != Children::kNone &&
                         g_open_error == 0 && !must_be_silent());
}

bool start_for_cuda() {
  ensure_started();
  if (recording() || g_process->decided == 0) return recording();
  if (g_stopped_for_filter) return false;
  if (environment().children == Children::kNone || g_open_error != 0 || must_be_silent()) {
    if (!unfit_because().empty() && environment().children != Children::kNone) say_what_is_wrong();
    return false;
  }
  {
    HookScope scope;
    if (!scope.entered()) return false;
    const int saved_errno = errno;
    LockGuard guard(g_start_lock);
    if (!recording() && g_open_error == 0) {
      remember_stderr();
      open_log(Reason::kFirstCudaCall);
      say_what_is_wrong();
    }
    errno = saved_errno;
  }
  if (!recording()) return false;
  load_unwinder();
  enter_process_phase("main");
  return true;
}

void finish_start() {
  ensure_started();
  if (g_process->decided == 0 || is_privileged()) return;
  remember_stderr();
  if (must_be_silent()) {
    if (is_asked_for()) say_what_is_wrong();
    return;
  }
  if (recording() || g_open_error != 0) say_what_is_wrong();
  if (!recording()) return;
  if (environment().run_pid == 0) mark_children();
  // The program's own malloc may not be ready before main, and the loader would call it. The
  // unwinder, which device calls need most, is then loaded at the first of them.
  if (owns_malloc())
    load_unwinder();
  else
    set_quality(GPUPEAK_Q_FOREIGN_MALLOC);
  enter_process_phase("start");
}

void stop_for_filter() {
  if (g_stopped_for_filter) return;
  if (recording()) {
    say("the program confines itself by a filter of system calls that ends it for what recording "
        "takes: from here on nothing is recorded");
    HookScope scope;
    if (scope.entered()) {
      sample_process();
      set_quality(GPUPEAK_Q_DISK_FULL);  // the log cannot go on
      close_books();
    }
  }
  g_stopped_for_filter = true;
  g_process->host_recording = 0;
  g_process->whole_heap_generation = 0;
  g_process->recording = 0;
}

void end_process_at_once() {
  if (!recording() || sys::getpid() != g_process->pid) return;  // a vfork child, in our memory
  HookScope scope;
  if (!scope.entered() || counters().ended != 0) return;
  counters().ended = 1;
  if (is_short_of_stack()) return;
  sample_process();
  close_books();
}

void end_process() {
  if (!recording()) return;
  enter_process_phase("exit");
  {
    HookScope scope;
    if (!scope.entered()) return;
    sample_process();
    counters().ended = 1;
    close_books();
  }
  if (log_was_cut()) {
    Path line;
    line.add(log_path()).add(" was cut by somebody else while it was written. ");
    say(line.add("What was logged since is lost").view());
    return;
  }
  print_summary();
}

}  // namespace gpupeak::preload
