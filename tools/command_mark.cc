#include <algorithm>
#include <cctype>
#include <string>

#include "collector/log/log_appender.h"
#include "collector/text/error.h"
#include "command_line.h"
#include "commands.h"
#include "exit_codes.h"

namespace gpupeak::tools {
namespace {

struct MarkOptions {
  std::string target;  ///< a process id or a log
  std::string name;
};

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

}  // namespace

void add_mark(CommandLine& line) {
  auto [verb, options] =
      line.add("mark", "Mark this instant in the log of a running process", mark);
  verb.add_option("process", options.target, "Its process id, or the log that it writes")
      ->required()
      ->type_name("PID|LOG");
  verb.add_option("name", options.name, "What to call the mark")->required()->type_name("NAME");
}

}  // namespace gpupeak::tools
