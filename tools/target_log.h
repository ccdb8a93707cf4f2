// The log of a run that goes on. The command line names its process, or the log itself.
#pragma once

#include <string>

namespace gpupeak::tools {

/// Throws UsageError for a process that there is not, or that writes no log.
std::string log_of_target(const std::string& pid_or_log);

/// The same, of a process of this user's, in this namespace of processes, whose log is to be written.
std::string log_of_own_target(const std::string& pid_or_log);
/// The log that is meant by an argument: a file, or else the id of a process.
std::string log_meant_by(const std::string& log);

}  // namespace gpupeak::tools
