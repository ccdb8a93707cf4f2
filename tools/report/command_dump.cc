#include <unistd.h>

#include "collector/write/write_dump.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/terminal.h"

namespace gpupeak::tools {
namespace {

struct DumpOptions {
  std::string log;
  std::string out;  ///< file; empty: standard output
  collector::Reading reading;
};

int dump(const DumpOptions& options) {
  // If the events go to the terminal there is no progress bar: it would appear among them.
  require_output(options.out, {options.log});
  ProgressBar bar;
  const collector::Progress progress =
      isatty(output_descriptor(options.out)) != 0 ? collector::Progress{} : bar.callback();
  const collector::LogReader log(options.log, options.reading.sanitizer);
  write_output(options.out, [&](std::ostream& out) { collector::write_dump(log, out, progress); });
  return kOk;
}

}  // namespace

void add_dump(CommandLine& line) {
  auto [verb, options] = line.add("dump", "Print a log, one line for each event", dump);
  verb.add_option("log", options.log, "The log")->required()->type_name("FILE");
  add_out(verb, options.out);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
