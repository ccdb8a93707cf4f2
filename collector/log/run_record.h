// What `gpupeak run` knows of a run when it has ended: which logs are the run's, which processes
// left none, what ended it. It is kept in the log of the process that `run` started. A log without
// it stands for one process alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpupeak/smaps.h"

namespace gpupeak::collector {

struct RunRecord {
  /// A log of the run: of another process, or of the started one itself.
  struct Log {
    std::string path;  ///< relative to the folder of the log with the record; "": that log
    uint64_t id = 0;   ///< the log's random number
    uint32_t pid = 0;
  };
  /// What a process held of a GPU, as the driver says.
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
    bool went_on = false;  ///< it had a log, and then went on with this program by exec
    std::optional<uint64_t> rss_bytes;  ///< the most that was seen
    std::vector<OfDevice> devices;      ///< empty: none, or not known
    bool of_another_run = false;        ///< which knows its peak; only until `run` ends
  };
  /// A process of the run that still ran when `run` ended, such as a daemon.
  struct LeftRunning {
    uint32_t pid = 0;
    uint64_t start_time = 0;  ///< as in a log's header: with the pid it names the process for good
    std::string name;
    std::string why;  ///< why it is not recorded; empty: it is recorded, or that is not known
  };
  /// The kernel killed a process of the run because memory was short.
  struct MemoryKill {
    bool likely = false;           ///< only concluded from the signal and the node's free memory
    uint64_t limit_bytes = 0;      ///< of the cgroup; 0: of the node
    std::string cgroup;            ///< its path; empty: the node
    uint64_t kills = 0;            ///< that the kernel counted while the run lasted
    bool started_process = false;  ///< the process that `run` started was killed
  };

  /// What of a process was resident when that was most, by the kernel's list of its mappings, which
  /// `run` reads now and then. ResidentParts and `log_bytes` add up to rss_bytes.
  struct Resident : ResidentParts {
    uint32_t pid = 0;
    uint64_t rss_bytes = 0;
    uint64_t log_bytes = 0;          ///< gpupeak's log
    uint64_t static_data_bytes = 0;  ///< of anonymous_bytes: .bss of program and libraries
    /// Of malloc_bytes and anonymous_bytes: shared with others since a fork.
    uint64_t shared_anonymous_bytes = 0;
    /// Of malloc_bytes, at most: taken by brk and sbrk of others than malloc.
    uint64_t others_brk_bytes = 0;
    /// In use then, by the counters page; none: no log was found.
    std::optional<uint64_t> heap_bytes;
    uint64_t own_bytes = 0;  ///< of gpupeak itself, without the log
  };
  /// Processes that left no log and had so little that none is worth a word.
  struct Small {
    uint64_t count = 0;
    std::string largest;     ///< its name
    uint64_t rss_bytes = 0;  ///< the most that was seen of it
  };
  /// What the run's processes had resident together when that was most. In pss_bytes a page of
  /// several processes counts once.
  struct Together {
    uint64_t rss_bytes = 0, pss_bytes = 0;
    /// Of pss_bytes: neither files' nor gpupeak's own; 0: not known (Linux before 5.4).
    uint64_t own_bytes = 0;
    uint32_t processes = 0;
  };

  std::vector<Log> logs;  ///< the started process's first
  std::vector<Unrecorded> unrecorded;
  /// The largest resident memory of a process that left no log, as the kernel tells it at the end,
  /// if nobody looked while it had nearly as much; 0: there is no such process.
  uint64_t unseen_rss_bytes = 0;
  Small small;
  std::vector<LeftRunning> left_running;
  std::optional<MemoryKill> memory_kill;
  std::vector<Resident> resident;
  std::optional<Together> together;  ///< none: there was one process, or nobody looked
  bool descendants_watched = false;  ///< false: nobody looked for processes without a log
};

/// Reads the record. None: the log has none, it is damaged, or there is no log.
std::optional<RunRecord> read_run_record(const std::string& log);

/// Writes the record into a log that nobody writes any more, in place of the one that is there.
/// False: there is no room, or it is no log.
bool write_run_record(const std::string& log, const RunRecord& record);

}  // namespace gpupeak::collector
