#include "tools/run/screen_lines.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "collector/fit/what_if.h"
#include "collector/run/analyze_run.h"
#include "collector/text/work.h"
#include "collector/write/writers.h"
#include "tools/shared/command_line.h"

namespace gpupeak::tools {
namespace {

void say_work() {
  if (getenv("GPUPEAK_WORK") == nullptr) return;
  const collector::Work& done = collector::work();
  say("work: {} records decoded, {} addresses looked up in {} files, {} of them scanned for types",
      done.records.load(), done.names.load(), done.files.load(), done.rtti_scans.load());
}

}  // namespace

collector::Options screen_options(const collector::Reading& reading) {
  collector::Options options;
  options.reading = reading;
  options.reading.heap = collector::HeapReading::kIfFew;
  options.stacks = false;
  options.all_tables = false;
  options.complete = collector::add_quick_lowering;
  options.keep = false;  // the log may be compressed after this, and is then another file
  return options;
}

std::string screen_lines(const std::string& log, const collector::Options& options,
                         const collector::TextStyle& style, const collector::Progress& progress) {
  const collector::Summary summary = collector::analyze_run(collector::logs_of_run(log), options,
                                                            collector::RunDepth::kGpus, progress);
  std::ostringstream text;
  collector::write_short(summary, text, style);
  return text.str();
}

void write_screen(int pipe, const std::string& log, const collector::Reading& reading,
                  const collector::TextStyle& style) {
  try {
    collector::Options options = screen_options(reading);
    options.process_ends = true;
    const std::string text = screen_lines(log, options, style);
    say_work();
    for (size_t done = 0; done < text.size();) {
      const ssize_t written = write(pipe, text.data() + done, text.size() - done);
      if (written < 0 && errno != EINTR) _exit(1);
      if (written > 0) done += static_cast<size_t>(written);
    }
    _exit(0);
  } catch (...) {
    _exit(1);
  }
}

}  // namespace gpupeak::tools
