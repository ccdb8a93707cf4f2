// The log of a run that goes on, by what the command line names: its process or the log itself.
#pragma once

#include <string>

namespace gpupeak::tools {

/// Throws UsageError for a process that there is not, or that writes no log.
std::string log_of_target(const std::string& pid_or_log);

}  // namespace gpupeak::tools
