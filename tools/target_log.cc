#include "target_log.h"

#include <algorithm>
#include <cctype>

#include "collector/log/log_appender.h"
#include "collector/text/error.h"

namespace gpupeak::tools {

std::string log_of_target(const std::string& pid_or_log) {
  const bool is_pid = !pid_or_log.empty() && pid_or_log.size() < 10 &&
                      std::all_of(pid_or_log.begin(), pid_or_log.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!is_pid) return pid_or_log;
  const std::string log = collector::log_of_process(std::stoi(pid_or_log));
  if (log.empty()) {
    throw collector::UsageError("process " + pid_or_log +
                                " writes no log; start it with `gpupeak run`, or name the log of "
                                "the process that does");
  }
  return log;
}

}  // namespace gpupeak::tools
