#include <algorithm>
#include <cctype>
#include <string>

#include "collector/log/log_appender.h"
#include "collector/text/error.h"
#include "commands.h"
#include "exit_codes.h"

namespace gpupeak::tools {

int mark(const MarkOptions& options) {
  const bool is_pid = !options.target.empty() && options.target.size() < 10 &&
                      std::all_of(options.target.begin(), options.target.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  std::string log = options.target;
  if (is_pid) {
    log = collector::log_of_process(std::stoi(options.target));
    if (log.empty()) {
      throw collector::UsageError("process " + options.target +
                                  " writes no log; start it with `gpupeak run`, or name the log of "
                                  "the process that does");
    }
  }
  collector::LogAppender(log).mark(options.name);
  return kOk;
}

}  // namespace gpupeak::tools
