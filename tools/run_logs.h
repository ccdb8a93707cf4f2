// Finds the logs that a run has left, and writes into them how the program ended. Used by `run`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collector/log/run_record.h"

namespace gpupeak::tools {

/// Which run a log is of: this user's, and of the processes that know its secret.
struct RunName {
  uint64_t id = 0;    ///< as GPUPEAK_RUN_ID
  uint64_t began_ns;  ///< CLOCK_REALTIME
  pid_t child = 0;    ///< the process that it started
};

struct RunLog {
  std::string path;
  uint64_t id = 0;   ///< its random number
  dev_t device = 0;  ///< with the inode: the very file that was looked at
  ino_t inode = 0;
  pid_t pid = 0;
  uint64_t process_start_time = 0;  ///< with the id names one process for good
  bool of_child = false;            ///< its process is the one that `run` started
  uint64_t start_realtime_ns = 0;
  uint64_t device_events = 0;
  size_t parts = 0;  ///< logs of other programs of the process that join_programs() put into it
};

/// The run's logs in the folders of `patterns`. The one to report comes first: the started
/// process's own, of several (it went on with another program) the one that used the GPU, or the
/// last.
std::vector<RunLog> find_logs(const std::vector<std::string>& patterns, const RunName& run);

/// Whether its process runs, or may run on another machine.
bool is_running(const RunLog& log);

enum class OldLog { kNone, kRemoved, kInUse, kOfOthers };
/// Removes the log of a process that has ended. What is no log stays, and so does one whose process
/// runs, or may run on another machine, and what another user has put there.
OldLog remove_old_log(const std::string& path);

/// Removes what a process recorded before it went on with another program by exec, where that took
/// less than a second and used no device: wrappers and shims. (Under one name the library does.)
void drop_short_images(std::vector<RunLog>& logs);

/// Leaves one log of each process that went on with other programs and has ended: of the one that
/// used the GPU last, or of the last one. The others become parts of it (log_parts.h). That of the
/// started process gets the name `wanted`, unless that is a pattern.
void join_programs(std::vector<RunLog>& logs, const std::string& wanted);

/// Gives the first log the name `wanted` where nothing has it, as when the started process left
/// none: it stands for the run. A pattern is no name.
void take_name(std::vector<RunLog>& logs, const std::string& wanted);

/// Writes into the first log which ones are the run's, and what else `run` has seen.
void record_run(const std::vector<RunLog>& logs, collector::RunRecord seen);

/// How a process ended, as its parent saw it.
struct ProcessExit {
  int wait_status = 0;          ///< as waitpid gives it
  uint64_t monotonic_ns = 0;    ///< when it had ended
  uint64_t rss_peak_bytes = 0;  ///< 0: not known
};
/// Writes it into a log's counters page; the peak only where the log has none of its own.
void note_exit(const RunLog& log, const ProcessExit& exit);

/// Of processes that a signal ended, as their parents' logs have it: note_exit() for each.
void note_killed_children(const std::vector<RunLog>& logs);

/// The most that was resident of a log's process, as its counters have it; 0: not known.
uint64_t rss_peak_of(const std::string& path);

/// Whether its process has said that it ends.
bool has_end(const std::string& path);

/// Of a process that has gone without an end (killed, left by exec), whose log ends in
/// one, 64 MiB of it.
void cut_hole(const RunLog& log);

}  // namespace gpupeak::tools
