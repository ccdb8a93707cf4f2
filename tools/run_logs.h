// The logs that a run has left: found, and told how the program ended. Used by `run`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gpupeak::tools {

struct RunLog {
  std::string path;
  bool of_child = false;  ///< its process is the one that `run` started
  uint64_t start_realtime_ns = 0;
  uint64_t device_events = 0;
};

/// Logs in the folder of `pattern` that began at or after `since_ns` (CLOCK_REALTIME). The one to
/// report comes first: the started process's own, of several (it went on with another program) the
/// one that used the GPU, or the last.
std::vector<RunLog> find_logs(const std::string& pattern, uint64_t since_ns, pid_t child);

/// Writes into a log's counters page how its process ended. `wait_status` as waitpid gives it;
/// `rss_peak_bytes` only where the log has none of its own.
void note_exit(const std::string& path, int wait_status, uint64_t rss_peak_bytes);

}  // namespace gpupeak::tools
