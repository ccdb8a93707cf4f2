// `attach` and `detach` on processors for which they do not work: calling a function in another
// program needs code for each kind of processor.

#include "collector/text/error.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"

namespace gpupeak::tools {
namespace {

struct AttachOptions {
  int pid = 0;
};

int refuse(const AttachOptions&) {
  throw collector::UsageError(
      "attach and detach work on x86-64 alone: start the program with `gpupeak run`");
}

void add(CommandLine& line, const char* name, const char* description) {
  auto [verb, options] = line.add(name, description, refuse);
  add_value(verb, "process", options.pid, "PID", "Its process id");
  verb.allow_extras();
}

}  // namespace

void add_attach(CommandLine& line) {
  add(line, "attach", "Record a program that runs already and was started without gpupeak");
}

void add_detach(CommandLine& line) {
  add(line, "detach", "Leave a program that was attached to; it runs on");
}

}  // namespace gpupeak::tools
