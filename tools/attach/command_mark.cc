#include "collector/log/log_appender.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/runs.h"

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
  add_process_or_log(verb, options.target);
  add_required(verb, "name", options.name, "NAME", "What to call the mark");
}

}  // namespace gpupeak::tools
