// Finds the logs that a run has left, and writes into them how the program ended. Used by `run`.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "collector/log/run_record.h"
#include "collector/symbols/debug_files.h"
#include "gpupeak/log_format.h"
#include "tools/shared/child.h"

namespace gpupeak::tools {

/// What tells a log of this run from others: it is this user's, and has the run's secret number.
struct RunName {
  uint64_t id = 0;    ///< as GPUPEAK_RUN_ID
  uint64_t began_ns;  ///< CLOCK_REALTIME
  pid_t child = 0;    ///< the process that it started
};

struct RunLog {
  std::string path;
  gpupeak_file_header header{};
  dev_t device = 0;  ///< device and inode: the very file that was looked at
  ino_t inode = 0;
  bool of_child = false;  ///< its process is the one that `run` started
  uint64_t device_events = 0;
  size_t parts = 0;  ///< logs of other programs of the process that join_programs() put into it
};

/// The run's logs in the folders of `patterns` whose names fit a pattern. The log to report comes
/// first: that of the started process. If the process has several logs, since it went on with other
/// programs by exec, the log of a program that used a GPU comes first, else the last log.
std::vector<RunLog> find_logs(const std::vector<std::string>& patterns, const RunName& run);

/// Whether the log's process runs, or may run on another machine.
bool is_running(const RunLog& log);

enum class OldLog { kNone, kRemoved, kInUse, kOfOthers };
/// Removes the log of a process that has ended. A file that is no log stays. So does a log whose
/// process runs, or may run on another machine, and one that another user has put there.
OldLog remove_old_log(const std::string& path);

/// Removes the logs of wrappers and shims: what a process recorded before an exec, if that was less
/// than a second and used no device. (If both programs have one log name, the library does it.)
void drop_short_images(std::vector<RunLog>& logs);

/// Joins the logs of each process that went on with other programs by exec and has ended. The log
/// of the program that used a GPU last stays, else that of the last program. The other logs become
/// parts of it (log_parts.h).
void join_programs(std::vector<RunLog>& logs);

/// Gives the first log, which stands for the run, the name `wanted` if no file has it. Does nothing
/// if `wanted` is a pattern.
void take_name(std::vector<RunLog>& logs, const std::string& wanted);

/// Writes into the first log which logs the run has, and what else `run` has seen.
void record_run(const std::vector<RunLog>& logs, collector::RunRecord seen);

/// How a process ended, as its parent saw it.
struct ProcessExit {
  int wait_status = 0;          ///< as waitpid gives it
  uint64_t monotonic_ns = 0;    ///< when it had ended
  uint64_t rss_peak_bytes = 0;  ///< 0: not known
};
/// Writes the exit into a log's counters page. The peak is written only if the log has none.
void note_exit(const RunLog& log, const ProcessExit& exit);

/// note_exit() for each process that a signal ended, as its parent's log says.
void note_killed_children(const std::vector<RunLog>& logs);

/// The counters of a log; all zero if they cannot be read.
gpupeak_counters_page counters_of(const RunLog& log);

/// Cuts off the hole of up to 64 MiB at the end of a log whose process has gone without closing it
/// (killed, or left by exec).
void cut_hole(const RunLog& log);

// What else `run` does with its logs when the program has ended.

/// Keeps the names of functions of a run's own programs and libraries in its logs. So reports stay
/// the same if these files are built anew, or removed. Begins in a process of its own, so that the
/// screen is made meanwhile. `which`: of which modules, as the option names them. Time limit: with
/// auto a fiftieth of the time that the program `ran`, 50 ms to 2 s; with own a tenth of it, 2 s to
/// 10 s; with all 20 s.
class NameKeeper {
 public:
  /// `search`: has the files that nothing leads to any more. `gone_alone`: of these alone, with the
  /// time limit of own, since nobody can look them up later; else of all others.
  NameKeeper(const std::vector<RunLog>& logs, const std::string& which,
             std::chrono::nanoseconds ran, const collector::SymbolSearch& search, bool gone_alone);

  /// Waits until it has ended; no longer if `stop` becomes true. False: somebody has asked for all
  /// names, and the time limit was too short for them.
  bool wait(const volatile sig_atomic_t& stop);

 private:
  const bool is_asked_;
  const std::chrono::steady_clock::duration patience_;
  const std::chrono::steady_clock::time_point until_;
  Helper helper_;
};

/// The most threads that compress one log.
inline constexpr size_t kCompressionThreads = 4;

/// Compresses the logs of a run in place: each keeps its name, and every verb reads it. `run` does
/// this last, when everything else is done and said. `when`: always, never, or auto, which leaves
/// out small logs. Logs that are still being written are left out. If `stop` becomes true, if there
/// is no room, or if anything else goes wrong, the log stays as it was.
void compress_logs(const std::vector<RunLog>& logs, const std::string& when, bool quiet,
                   const volatile sig_atomic_t& stop);

}  // namespace gpupeak::tools
