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

}  // namespace

void add_attach(CommandLine& line) {
  auto [verb, options] = line.add(
      "attach", "Record a program that runs already and was started without gpupeak", refuse);
  verb.add_option("process", options.pid, "Its process id")->type_name("PID");
  verb.allow_extras();
}

void add_detach(CommandLine& line) {
  auto [verb, options] =
      line.add("detach", "Leave a program that was attached to; it runs on", refuse);
  verb.add_option("process", options.pid, "Its process id")->type_name("PID");
  verb.allow_extras();
}

}  // namespace gpupeak::tools
