// Whether the kernel killed a process of a run for want of memory. It compares the kernel's
// counters before and after the run: those of the machine, and of the cgroups (v1 and v2) that the
// run's processes are in. Used by `run`.
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
  /// To be made as the program starts; reads the counters of this process's cgroup. `mounts`:
  /// the table that tells where the hierarchies are mounted.
  explicit MemoryKills(std::string mounts = "/proc/self/mountinfo");
  /// Notes a process of the run. If it is in a new cgroup, that cgroup's counters are compared from
  /// now on. To be called while the process runs: with v1 its cgroup is not known after its end.
  void note(pid_t process);

  /// The smallest of the limits when they were read, in bytes; 0: there is none.
  uint64_t limit() const;

  /// What the counters say of the time since they were read; none: no process was killed. `killed`:
  /// SIGKILL ended the started process.
  std::optional<collector::RunRecord::MemoryKill> since(bool killed) const;

 private:
  /// A cgroup that may have a limit.
  struct Group {
    std::string path;    ///< below the hierarchy's root, as /proc/PID/cgroup has it
    std::string folder;  ///< where its files are
    bool v2 = false;
    uint64_t kills = 0;     ///< killed processes of the cgroup (v2: and of cgroups below it)
    uint64_t refusals = 0;  ///< how often its own limit was reached
    uint64_t limit = 0;     ///< 0: none
    bool was_read = false;
  };
  void add_groups(pid_t process, bool v2);
  static void read(Group& group);

  std::string mounts_;
  std::set<std::string> noted_;  ///< texts of /proc/PID/cgroup
  std::vector<Group> before_;    ///< as first read; for each process its innermost cgroup first
  uint64_t node_kills_ = 0;
};

}  // namespace gpupeak::tools
