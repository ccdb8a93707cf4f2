// What `gpupeak run` knows of a run when it has ended, kept in the log of the process that it
// started: which logs are the run's, which processes left none, what ended it. Without it a log is
// one process's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpupeak::collector {

struct RunRecord {
  /// A log of the run: of another process, or of the started one itself.
  struct Log {
    std::string path;  ///< from the folder of the log that has the record; "": that one
    uint64_t id = 0;   ///< its random number
    uint32_t pid = 0;
  };
  /// What a process held of a GPU by the driver's account.
  struct OfDevice {
    std::string uuid;  ///< "GPU-…"
    std::string name;
    uint32_t index = 0;  ///< as nvidia-smi numbers it
    uint64_t bytes = 0;  ///< the most that was seen
  };
  /// A process that descends from the started one and left no log.
  struct Unrecorded {
    uint32_t pid = 0;
    std::string name;
    std::string why;  ///< empty: not known
    bool used_gpu = false;
    bool went_on = false;               ///< it had a log, and then became this program by exec
    std::optional<uint64_t> rss_bytes;  ///< the most that was seen
    std::vector<OfDevice> devices;      ///< empty: none, or nobody could tell
  };
  /// A process of the run that was still there when `run` ended, as a daemon is.
  struct LeftRunning {
    uint32_t pid = 0;
    uint64_t start_time = 0;  ///< with the pid names it for good, as in a log's header
    std::string name;
    std::string why;  ///< it is not recorded; empty: it is, or nobody could tell
  };
  /// The kernel ended a process of the run for memory.
  struct MemoryKill {
    bool likely = false;           ///< by signs alone: the signal, and the node's memory
    uint64_t limit_bytes = 0;      ///< of the cgroup; 0: of the node
    std::string cgroup;            ///< its path; empty: the node
    uint64_t kills = 0;            ///< that were counted while the run lasted
    bool started_process = false;  ///< it was the one that `run` started
  };

  /// What was resident of a process when there was most, by the kernel's list of its mappings, read
  /// from outside now and then. The parts from `files_bytes` to `log_bytes` add up to rss_bytes.
  struct Resident {
    uint32_t pid = 0;
    uint64_t rss_bytes = 0;
    uint64_t files_bytes = 0, shared_bytes = 0, driver_bytes = 0, stacks_bytes = 0;
    uint64_t malloc_bytes = 0;            ///< brk and what lies as an arena of malloc's
    uint64_t anonymous_bytes = 0;         ///< other
    uint64_t log_bytes = 0;               ///< gpupeak's log
    uint64_t static_data_bytes = 0;       ///< of anonymous_bytes: .bss of program and libraries
    uint64_t shared_anonymous_bytes = 0;  ///< of malloc's and other: of several processes, by fork
    std::optional<uint64_t> heap_bytes;   ///< in use then, by its counters; none: no log was found
    uint64_t own_bytes = 0;               ///< gpupeak's own, without the log
  };
  /// What the run's processes had resident together, at most: pages of several count once in
  /// pss_bytes.
  struct Together {
    uint64_t rss_bytes = 0, pss_bytes = 0;
    uint32_t processes = 0;
  };

  std::vector<Log> logs;  ///< the started process's first
  std::vector<Unrecorded> unrecorded;
  /// The largest process's, by the kernel's account at the end, where it left no log and nobody saw
  /// what it held; 0: there is no such.
  uint64_t unseen_rss_bytes = 0;
  std::vector<LeftRunning> left_running;
  std::optional<MemoryKill> memory_kill;
  std::vector<Resident> resident;
  std::optional<Together> together;  ///< none: there was one process, or nobody looked
  bool descendants_watched = false;  ///< else nobody looked for processes without a log
};

/// None: the log has none, or it is damaged. Throws LogError where there is no log.
std::optional<RunRecord> read_run_record(const std::string& log);

/// Puts it into a log that nobody writes any more, in place of one that is there. False: there is
/// no room, or it is no log.
bool write_run_record(const std::string& log, const RunRecord& record);

}  // namespace gpupeak::collector
