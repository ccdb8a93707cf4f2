// A run as a tree of processes: what they held of each GPU at once, who of them held it, and what
// was not seen. Plain values, a part of the Summary of the process that held the most.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpupeak::collector {

// Values that both a process and a run of several processes have.

/// Bytes or counts by name; no value: not measured.
using Metrics = std::map<std::string, std::optional<uint64_t>>;

/// The value of a metric; nullopt if it is not measured or not there.
inline std::optional<uint64_t> metric(const Metrics& metrics, const std::string& name) {
  const auto entry = metrics.find(name);
  return entry == metrics.end() ? std::nullopt : entry->second;
}

enum class ExitKind { kUnknown, kExit, kSignal };

/// How a process ended.
struct RunEnd {
  ExitKind kind = ExitKind::kUnknown;
  int32_t code = 0;  ///< the exit code or the signal
  /// If not, its figures are of a part of its work.
  bool in_order() const { return kind == ExitKind::kExit && code == 0; }
};

struct WholeRun {
  /// What the run's processes held at once.
  struct Sum {
    std::string node;                    ///< where it was; empty: the run was on one node
    std::string name;                    ///< for people: "GPU 0 (H200)", "all GPUs", "host"
    std::string uuid;                    ///< of a GPU; empty: not known
    std::optional<int32_t> ordinal;      ///< of a GPU: its number in the first process that uses it
    uint64_t total_bytes = 0;            ///< of the GPU; 0: not known
    std::optional<uint64_t> peak_bytes;  ///< none: not measured of all
    /// The peak may have been less by so much; none: not known.
    std::optional<uint64_t> error_bytes;
    std::optional<uint64_t> sum_of_peaks_bytes;  ///< the sum of the processes' own peaks
    int64_t peak_time_ns = 0;                    ///< since the first process's start
  };
  /// What a process held of a GPU.
  struct OfDevice {
    size_t device = 0;  ///< index into devices
    uint64_t peak_bytes = 0;
    std::optional<uint64_t> at_peak_bytes;  ///< when the run held most of it; none: not known
    Metrics metrics;                        ///< the process's own, of this GPU
  };
  struct Process {
    std::string log;  ///< as a verb takes it
    uint32_t pid = 0;
    std::optional<int32_t> rank;
    std::string program;   ///< file name; empty: not known
    bool started = false;  ///< the one that `gpupeak run` started
    RunEnd end;
    int64_t begin_ns = 0;  ///< since the first process's start
    std::vector<OfDevice> devices;
    std::optional<uint64_t> device_peak_bytes;  ///< of all its GPUs together; none: it used none
    std::optional<uint64_t> host_peak_bytes, rss_peak_bytes;  ///< none: not measured
    /// Usable bytes, as it counted itself; none: it did not.
    std::optional<uint64_t> heap_peak_bytes;
    bool forked = false;  ///< the host's figures are of what came since the fork
    std::string holder;   ///< the site that held most at its peak; empty: nobody looked
    uint64_t holder_bytes = 0;
    bool exact = true, events_lost = false, complete = true;  ///< as Quality has them
    std::string losses;                                       ///< as losses_text() says
    Metrics metrics;  ///< its own; empty: it was not read in full
  };
  /// A process that was seen and left no log.
  struct NotRecorded {
    uint32_t pid = 0;
    std::string program;
    std::string why;  ///< "its LD_PRELOAD was replaced by …"; empty: not known
    bool used_gpu = false;
    bool went_on = false;  ///< it had a log, and then became this program by exec
    std::optional<uint64_t> rss_bytes;
    struct Held {
      std::string device;  ///< for people
      std::string uuid;
      uint64_t bytes = 0;
    };
    std::vector<Held> held;  ///< the most that NVML said of it
  };
  /// Processes that left no log and had little.
  struct Small {
    uint64_t count = 0;
    std::string program;     ///< the largest
    uint64_t rss_bytes = 0;  ///< of it
  };
  /// A process that `run` has left behind and that may still run.
  struct StillRunning {
    uint32_t pid = 0;
    std::string program;
    std::string log;                    ///< as any verb takes it; empty: it has none so far
    std::string why;                    ///< why it will never have one; empty: not known
    std::optional<uint64_t> rss_bytes;  ///< when the report was made
  };
  /// The kernel killed a process of the run because memory was short.
  struct MemoryKill {
    bool likely = false;           ///< only concluded from the signal and the node's free memory
    uint64_t limit_bytes = 0;      ///< of the cgroup; 0: of the node, or of a cgroup above
    std::string cgroup;            ///< its path; empty: the node
    uint64_t kills = 0;            ///< that the kernel counted while the run lasted
    bool started_process = false;  ///< the process that `run` started was killed
  };

  std::string log;  ///< of the started process, which stands for the run
  /// By what they held of GPUs, then of the host; a started one without a GPU last.
  std::vector<Process> processes;
  size_t lead = 0;  ///< index of the process whose Summary this is a part of
  std::vector<Sum> devices;
  std::optional<Sum> all_devices;         ///< none: there is one GPU at most, or several nodes
  std::optional<Sum> host;                ///< none: nobody looked
  std::vector<NotRecorded> not_recorded;  ///< those that used a GPU first
  /// The RSS of a process that ended before anybody saw what it held; none: there is none.
  std::optional<uint64_t> unseen_rss_bytes;
  std::optional<Small> small;
  std::vector<StillRunning> still_running;
  std::optional<MemoryKill> memory_kill;
  /// The metrics of the run: the peaks of the sums above, counts added up, and where there is no
  /// sum the figure of the largest process. If not every process was read in full: only what was
  /// seen from outside.
  Metrics metrics;
  size_t lost_logs = 0;      ///< logs that the run's record names and that are not there
  bool is_recorded = false;  ///< `run` has written what it saw; else nobody looked for others
  bool watched = false;      ///< `run` looked for processes without a log

  bool has_several() const { return processes.size() > 1; }
  size_t gpu_processes() const {
    size_t count = 0;
    for (const Process& process : processes) count += process.device_peak_bytes.value_or(0) > 0;
    return count;
  }
};

}  // namespace gpupeak::collector
