// The log of a run that goes on. The command line names its process, or the log itself.
#pragma once

#include <string>

namespace gpupeak::tools {

/// The log of a running process. Throws UsageError if there is no such process, or if it writes no
/// log.
std::string log_of_target(const std::string& pid_or_log);

/// The same for a log that is to be written: the process must be this user's and in this PID
/// namespace.
std::string log_of_own_target(const std::string& pid_or_log);
/// The log that an argument means: a file, or else the id of a process. If it has ended: its last
/// log below the current folder.
std::string log_meant_by(const std::string& log);

}  // namespace gpupeak::tools
