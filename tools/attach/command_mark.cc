#include <string>

#include "collector/log/log_appender.h"
#include "tools/attach/target_log.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/exit_codes.h"

namespace gpupeak::tools {
namespace {

struct MarkOptions {
  std::string target;  ///< a process id or a log
  std::string name;
};

int mark(const MarkOptions& options) {
  collector::LogAppender(log_of_target(options.target)).mark(options.name);
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
