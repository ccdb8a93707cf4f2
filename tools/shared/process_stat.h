// What the kernel says of a process in /proc/PID/stat. Used by `run`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gpupeak::tools {

struct ProcessStat {
  std::string name;  ///< of the program, or the name that the process gave itself
  char state = 0;
  pid_t parent = 0;
  uint64_t faults_of_children = 0;  ///< minor page faults of children that it has waited for
  uint64_t threads = 0;
  uint64_t start_time = 0;  ///< clock ticks since the boot
  uint64_t rss_pages = 0;
  uint64_t arguments = 0;  ///< their address; it changes with an exec

  /// Whether the whole process has ended, not its first thread alone.
  bool has_ended() const { return state == 'Z' && threads <= 1; }
};

/// None if there is no such process. A process that has ended is there until it was waited for.
std::optional<ProcessStat> stat_of(pid_t process);

}  // namespace gpupeak::tools
