// Whether the kernel ended a process of a run for memory: its own counters before and after, of the
// cgroups (v1 and v2) that the run's processes are in and of the machine. Used by `run`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collector/log/run_record.h"

namespace gpupeak::tools {

class MemoryKills {
 public:
  /// As it is before the program starts, in the cgroup of this process. `mounts`: the table that
  /// tells where the hierarchies are.
  explicit MemoryKills(std::string mounts = "/proc/self/mountinfo");
  /// A process of the run, which may be in another cgroup: that counts from now on. Of one that has
  /// ended v1 does not tell any more.
  void note(pid_t process);

  /// The least of the limits as they were; 0: there is none.
  uint64_t limit() const;

  /// Since then. `killed`: the started process was ended by SIGKILL.
  std::optional<collector::RunRecord::MemoryKill> since(bool killed) const;

 private:
  /// A cgroup that may have a limit.
  struct Group {
    std::string path;    ///< below the hierarchy's root, as /proc/PID/cgroup has it
    std::string folder;  ///< where its files are
    bool v2 = false;
    uint64_t kills = 0;     ///< processes of it (v2: and of those below it) that were killed
    uint64_t refusals = 0;  ///< times that its own limit was what was reached
    uint64_t limit = 0;     ///< 0: none
  };
  void add_groups(pid_t process, bool v2);
  static void read(Group& group);

  std::string mounts_;
  std::set<std::string> noted_;  ///< as /proc/PID/cgroup has them
  std::vector<Group> before_;    ///< of each process's the innermost first
  uint64_t node_kills_ = 0;
};

}  // namespace gpupeak::tools
