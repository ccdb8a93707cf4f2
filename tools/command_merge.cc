#include <unistd.h>

#include <algorithm>

#include "collector/write/write_merge.h"
#include "command_line.h"
#include "commands.h"
#include "exit_codes.h"
#include "log_folder.h"
#include "output.h"
#include "say.h"
#include "strict.h"
#include "terminal.h"

namespace gpupeak::tools {
namespace {

struct MergeOptions {
  std::vector<std::string> logs;
  std::string out;  ///< file; empty: standard output
  TextOptions text;
  bool json = false;
  bool strict = false;
  collector::Reading reading;
};

int merge(const MergeOptions& options) {
  size_t unreadable = 0;
  const std::vector<std::string> logs = with_logs_of_folders(options.logs, unreadable);
  require_output(options.out, logs);
  ProgressBar bar;
  const collector::Merged merged =
      collector::merge_processes(logs, options.reading, bar.callback());
  bar.clear();
  write_output(options.out, [&](std::ostream& out) {
    if (options.json) {
      collector::write_merge_json(merged, out);
    } else {
      collector::write_merge(merged, out, style_for(output_descriptor(options.out), options.text));
    }
  });
  if (unreadable > 0) say("{} files named as logs cannot be read, and are left out", unreadable);
  const bool whole = std::all_of(merged.processes.begin(), merged.processes.end(),
                                 [](const auto& process) { return is_whole(process.quality); });
  return strict_code(options.strict, whole && unreadable == 0);
}

}  // namespace

void add_merge(CommandLine& line) {
  auto [verb, options] = line.add(
      "merge", "What several processes of one run, children or ranks, held at once", merge);
  verb.add_option("log", options.logs, "Their logs, or folders of them")
      ->required()
      ->type_name("FILE ...");
  verb.add_flag("--json", options.json, "As JSON");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_text_options(verb, options.text);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
