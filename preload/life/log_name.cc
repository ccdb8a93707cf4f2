#include <sys/utsname.h>

#include <cstring>

#include "base/clock.h"
#include "base/environment.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "life/process.h"
#include "log/log.h"
#include "thread/heap_sample.h"

namespace gpupeak::preload {
namespace {

std::string_view program_name(char* buffer, size_t capacity) {
  constexpr std::string_view kGone = " (deleted)";  // what the kernel says of a removed file
  std::string_view file = program_file(buffer, capacity);
  if (file.ends_with(kGone)) file.remove_suffix(kGone.size());
  return file.empty() ? "unknown" : file_name(file);
}

std::string_view host_name() {
  static utsname names;
  sys::uname(&names);
  return names.nodename;
}

}  // namespace

bool is_filed_as_child() {
  const Environment& e = environment();
  return !e.children_pattern.view().empty() && e.run_pid != 0 && e.run_pid != sys::getpid();
}

bool has_folder_of_children() {
  return is_filed_as_child() &&
         environment().children_pattern.view() != environment().out_pattern.view();
}

uint64_t run_id() {
  static constinit uint64_t own = 0;
  const uint64_t given = environment().run_id;
  if (given != 0) return given;
  if (own == 0 && sys::failed(sys::getrandom(&own, sizeof own))) own = 0;
  return own;
}

void expand_out_pattern(Path& path) {
  const std::string_view pattern = is_filed_as_child() ? environment().children_pattern.view()
                                                       : environment().out_pattern.view();
  if (pattern.empty() || pattern[0] != '/') {
    char folder[4096];
    const long bytes = sys::getcwd(folder, sizeof folder);
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
        path.add(sys::getpid());
        break;
      case 'h':
        path.add(host_name());
        break;
      case 'r':
        if (environment().rank >= 0)
          path.add(environment().rank);
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

void define_facts() {
  static char buffer[65536];
  const size_t bytes = read_file("/proc/self/cmdline", buffer, sizeof buffer - 1);
  buffer[bytes] = 0;
  for (size_t at = 0; at < bytes; at += strlen(buffer + at) + 1) define_fact("arg", buffer + at);
  const std::string_view exe = program_file(buffer, sizeof buffer);
  if (!exe.empty()) define_fact("exe", exe);
  const long cwd = sys::getcwd(buffer, sizeof buffer);
  if (cwd > 1) define_fact("cwd", {buffer, static_cast<size_t>(cwd) - 1});
  define_fact("host", host_name());
  // Logs of one boot have the same monotonic clock, even in different containers.
  const size_t boot = read_file("/proc/sys/kernel/random/boot_id", buffer, sizeof buffer);
  if (boot > 1) define_fact("boot", {buffer, boot - 1});
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
  header.run_id = run_id();
  if (reason == Reason::kFirstCudaCall) header.flags |= GPUPEAK_FLAG_LATE_START;
  if (reason == Reason::kAttached) header.flags |= GPUPEAK_FLAG_ATTACHED;
  if (reason == Reason::kCountedEnough) {
    header.flags |= GPUPEAK_FLAG_COUNTED;
    header.host_mode = GPUPEAK_HOST_COUNTERS;
  }
  if (forked) header.flags |= GPUPEAK_FLAG_FORKED;
  header.process_start_time = process_start_time(static_cast<int>(header.pid));
  header.sample_bytes = environment().host_mode == GPUPEAK_HOST_SAMPLED
                            ? sample_bytes_asked_for(GPUPEAK_HOST_SAMPLED)
                            : 0;
  header.initial_brk_bytes = g_process->initial_brk = sys::brk(0);
  strcpy(header.tool_version, GPUPEAK_VERSION);
  return header;
}

}  // namespace gpupeak::preload
