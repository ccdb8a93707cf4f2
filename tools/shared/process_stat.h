// What the kernel says of a process in /proc, of this thread, and what a program's file tells of
// how it is loaded. Used by `run`, `attach` and `serve`.
#pragma once

#include <elf.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collector/log/log_head.h"

namespace gpupeak::tools {

/// A file of the kernel's, whole; none: it is not there, or may not be read.
std::optional<std::string> kernel_text(const std::string& path);
/// "/proc/PID/WHAT". PID may be a thread's.
std::string of_process(pid_t pid, const std::string& what);
/// The fields of a process's or a thread's file `status`; empty: it is not there.
inline std::map<std::string, std::string> status_of(pid_t pid) {
  return collector::fields_of(of_process(pid, "status"));
}

/// What a link in the process's folder leads to: "exe", "root".
std::string link_of(pid_t process, const std::string& name);

using collector::ProcessStat;

/// The entries of a folder that are numbers, as of /proc and /proc/PID/task.
std::vector<pid_t> numbers_in(const std::string& folder);

/// Whether it is in our namespace of this kind ("pid"); false: it may not be looked at.
bool is_in_our_namespace(pid_t process, const char* kind);

/// None if there is no such process. A process that has ended is there until it was waited for.
inline std::optional<ProcessStat> stat_of(pid_t process) {
  return collector::process_stat(of_process(process, ""));
}

/// Asks done() again and again, less and less often, `longest` apart at most. False: it was not
/// true within so many seconds.
template <typename Done>
bool wait_until(double seconds, std::chrono::microseconds longest, const Done& done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (std::chrono::microseconds pause(20);; pause = std::min(2 * pause, longest)) {
    if (done()) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(pause);
  }
}

// Processor time of this thread. Unlike a clock it stands still while the thread waits for a
// processor on a busy machine.

inline std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// The program headers of a 64-bit ELF file; empty: the file is none, or is cut off.
std::vector<Elf64_Phdr> program_headers(const std::string& path);

/// The file that execvp() runs for a word of a command line; empty: there is none.
std::string program_file(const std::string& word);

/// Whether it is an ELF file for a loader of another architecture, as 32-bit programs are. Such a
/// loader complains about a library of ours.
bool has_other_loader(const std::string& path);

/// Why this program loads no preloaded library; none: it may load them, or cannot be read.
std::optional<std::string> why_never_preloaded(const std::string& path);

/// Bytes of a module's pages that follow the pages of its file: variables that begin as zeros
/// (.bss).
uint64_t static_data_bytes(const std::vector<Elf64_Phdr>& headers);

}  // namespace gpupeak::tools
