#include <unistd.h>

#include <iostream>
#include <memory>

#include "collector/text/error.h"
#include "tools/commands.h"
#include "tools/mcp/log_walk.h"
#include "tools/shared/command_line.h"
#include "tools/shared/runs.h"
#include "tools/shared/terminal.h"
#include "tools/top/screen.h"

namespace gpupeak::tools {
namespace {

constexpr size_t kFrameRows = 40;

struct ViewVerbOptions {
  std::string log, scope;
  std::string process;  ///< of a run; empty: the one that held the most
  bool once = false;
  collector::Reading reading;
};

int view(const ViewVerbOptions& options) {
  if (!options.once && (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0)) {
    throw collector::UsageError(
        "view needs a terminal; --once prints one frame, and `tree`, `flame` and `timeline` print "
        "the same");
  }
  std::unique_ptr<LogWalk> walk;
  {
    ProgressBar bar;
    walk = std::make_unique<LogWalk>(process_log(options.log, options.process), options.scope,
                                     bar.callback(), options.reading);
  }
  if (options.once) {
    const collector::TextStyle style = style_for(STDOUT_FILENO, {});
    for (const TopLine& line : walk->text(kFrameRows, style))
      std::cout << collector::cut(line.text, static_cast<size_t>(style.width), style) << '\n';
    return std::cout.flush() ? 0 : kOwnFailure;
  }
  TopScreen screen;
  constexpr int kWait = 1000;  // to see that the terminal is gone
  for (;;) {
    collector::TextStyle style;
    style.width = screen.columns();
    screen.draw(walk->text(screen.rows(), style), 0, walk->footer());
    if (!walk->press(screen.wait(kWait), screen.rows())) return 0;
  }
}

}  // namespace

void add_view(CommandLine& line) {
  auto [verb, options] =
      line.add("view", "A finished log to walk in: tree, flame graph, table, curve", view);
  add_log(verb, options.log);
  add_scope(verb, options.scope);
  add_process(verb, options.process);
  verb.add_flag("--once", options.once, "Print the first frame and end");
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
