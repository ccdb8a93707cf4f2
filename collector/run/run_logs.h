// Finds the logs for which a name stands that a verb is given. The log of the process that `gpupeak
// run` started stands for the run; the record in it names the logs of the run's other processes. If
// there is no record (the run goes on, or `run` was killed), they are looked for where `run` would
// have put them.
//
//   run.gplog          the whole run
//   run.gplog#4711     process 4711 of it
//   run.gplog#1        a program that its first process ran before the one that is reported
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/log/log_head.h"
#include "collector/log/run_record.h"
#include "collector/merge/merge.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

struct RunLog {
  std::string path;
  LogHead head;
};

struct RunLogs {
  std::string name;                 ///< as the verb was given it
  std::vector<RunLog> logs;         ///< the log of the started process first, if there is one
  std::optional<RunRecord> record;  ///< none: `run` did not see the run's end
  size_t lost = 0;                  ///< logs that the record names and that are not there
  std::vector<RunRecord::Resident> resident = {};  ///< of the run's processes, as `run` saw it

  /// The most that was resident of a process, files too, by the kernel or `run`; 0: not known.
  uint64_t resident_bytes(const RunLog& log) const;
  /// What a process held of the host, as far as that is known without reading its log: what was
  /// resident and no file's or parent's, or, if killed, its heap, which may be only reserved.
  uint64_t host_bytes(const RunLog& log) const;
  /// Index of the process that held the most of a GPU; if none used one, the most of the host.
  size_t lead() const;
};

// The log that an argument means.

/// Whether the word is the id of a process, and not the name of a log.
bool is_pid(const std::string& word);
/// The log of a running process, named by its id, or by the log itself. Throws UsageError if there
/// is no such process, or if it writes no log.
std::string log_of_target(const std::string& pid_or_log);
/// A file, or else the id of a process. If it has ended: its last log below the current folder.
std::string log_meant_by(const std::string& log);

/// Whether `run` started this process.
inline bool is_started(const LogHead& head) {
  return head.header.run_pid != 0 && head.header.run_pid == head.header.pid;
}

/// The logs that belong to `name`: a log, a part of one (LOG#N), or a process of a run (LOG#PID).
/// Throws LogError if there is none.
RunLogs logs_of_run(const std::string& name);

/// The runs that the names mean, in order; of a folder all in it and in those below it. Logs that
/// no record names, such as those of ranks that were recorded without `run`, are one entry. Files
/// of a folder that cannot be read are left out. `process`: as for process_of_run(), of each run
/// that process alone; empty: all. Throws UsageError and LogError.
std::vector<RunLogs> runs_of(const std::vector<std::string>& names,
                             const std::string& process = "");

/// All logs of the runs that the names mean. No log is there twice.
std::vector<std::string> all_logs(const std::vector<std::string>& names);

bool is_folder(const std::string& name);

/// The log of one process: "rank:1", a process id or a program's name. Throws UsageError if no
/// process, or more than one, has it.
const RunLog& process_of_run(const RunLogs& run, const std::string& process);

// A process's resident memory, as `gpupeak run` saw it from outside, as metrics.

/// Adds what was resident in the log's process, by cause, if `run` saw more from outside than the
/// process saw itself. The causes add up to the total.
void add_outside_look(const RunLogs& run, const RunLog& log, Metrics& metrics);

/// The same of the records of the logs that the names mean.
std::vector<ProcessRecord> with_outside_looks(const std::vector<std::string>& names,
                                              std::vector<ProcessRecord> records);

// A run as a whole, of one process or of many.
//
// in    the logs of the run's processes (run_logs.h)
// out   the Summary of the process that held the most (the lead). Its whole_run has what all
//       processes held at once, each process, and what was not seen
//
//   launcher        0 B of GPU 0
//   worker 0        6 GiB of GPU 0     the lead: tables and phases are this process's
//   worker 1        5 GiB of GPU 0     whole_run: GPU 0 had 11 GiB at once

enum class RunDepth {
  /// Processes with GPUs are read in full (if none used a GPU: the largest ones); of the others
  /// only the counters are taken.
  kGpus,
  kAll,  ///< every process is read in full
};

/// The lead's Summary. It has whole_run if the run has several processes, or if `run` wrote down
/// what it saw. Throws LogError if the lead's log cannot be read. Other logs that cannot be read
/// count as lost.
Summary analyze_run(const RunLogs& run, const Options& options, RunDepth depth,
                    const Progress& progress = {});

/// What gates, scripts and comparisons see of a run, read from its log or from JSON that `report
/// --json` wrote. For a run of several processes, the run's metrics and GPUs take the place of the
/// lead's, the phases are those of all processes, and the quality is the worst of all. For a
/// process alone it is the process's Summary, unchanged. Throws as load_summary() does.
Summary load_run_figures(const std::string& name, const Options& options,
                         const Progress& progress = {});

}  // namespace gpupeak::collector
