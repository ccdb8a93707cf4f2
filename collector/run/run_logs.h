// Which logs a name stands for that a verb is given. The log of the process that `gpupeak run`
// started stands for the run. The logs of the run's other processes are found by the record in it.
// If there is no record (the run goes on, or `run` was killed), they are looked for where `run`
// would have put them.
//
//   run.gplog          the whole run
//   run.gplog#4711     process 4711 of it
//   run.gplog#1        a program that its first process ran before the one that is reported
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collector/log/log_head.h"
#include "collector/log/run_record.h"

namespace gpupeak::collector {

struct RunLog {
  std::string path;
  LogHead head;
};

struct RunLogs {
  std::string name;                 ///< as it was given
  std::vector<RunLog> logs;         ///< that of the started process first, where there is one
  std::optional<RunRecord> record;  ///< none: `run` did not see its end
  size_t lost = 0;                  ///< logs that the record names and that are not there
  std::vector<RunRecord::Resident> resident = {};  ///< as `run` saw it of the run's processes

  /// What a process held of the host, as far as that is known without reading its log: what was
  /// resident; if nobody has looked, its heap, which may be only reserved.
  uint64_t host_bytes(const RunLog& log) const;
  /// The process that held the most of a GPU, else the most of the host.
  size_t lead() const;
};

/// The logs that belong to `name`: a log, a part of one (LOG#N), or a process of a run (LOG#PID).
/// Throws LogError if there is none.
RunLogs logs_of_run(const std::string& name);

/// The logs of a folder. Logs of one run are put together. Logs that no record names, such as those
/// of ranks that were recorded without `run`, are put together too. What cannot be read is left
/// out.
std::vector<RunLogs> runs_among(const std::string& folder, const std::vector<std::string>& paths);

/// The log of one process: "rank:1", a process id or a program's name. Throws UsageError if no
/// process has it, or several have.
const RunLog& process_of_run(const RunLogs& run, const std::string& process);

}  // namespace gpupeak::collector
