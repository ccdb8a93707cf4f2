#include <algorithm>
#include <filesystem>

#include "collector/log/log_folder.h"
#include "collector/merge/merge.h"
#include "collector/symbols/module_symbols.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {
namespace {

/// Logs, partial results, and those in folders.
struct MergeInputs {
  std::vector<std::string> logs, partials;
  /// Files in folders that are named like logs or results and cannot be read.
  size_t unreadable = 0;
};

/// Throws UsageError for a folder that has neither logs nor partial results.
void add_folder(const std::string& folder, MergeInputs& inputs) {
  const collector::FolderView view = collector::LogFolder(folder, SIZE_MAX).look();
  const auto first = static_cast<ptrdiff_t>(inputs.logs.size());
  for (const collector::FolderLog& log : view.logs) inputs.logs.push_back(log.path);
  std::sort(inputs.logs.begin() + first, inputs.logs.end());
  inputs.unreadable += view.unreadable;
  const size_t before = inputs.partials.size();
  for (const std::string& file : collector::files_named(folder, collector::kPartialEnding)) {
    if (collector::is_partial(file))
      inputs.partials.push_back(file);
    else
      ++inputs.unreadable;
  }
  if (view.logs.empty() && inputs.partials.size() == before)
    throw collector::UsageError("there are no logs in " + collector::escape(folder));
}

MergeInputs find_merge_inputs(const std::vector<std::string>& paths) {
  MergeInputs inputs;
  for (const std::string& path : paths) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error))
      add_folder(path, inputs);
    else if (path.ends_with(collector::kPartialEnding) || collector::is_partial(path))
      inputs.partials.push_back(path);
    else
      inputs.logs.push_back(path);
  }
  inputs.logs = collector::all_logs(inputs.logs);
  // A log has the same name, whether the log or its folder was given.
  for (std::string& log : inputs.logs) log = std::filesystem::path(log).lexically_normal();
  return inputs;
}

struct MergeOptions : OutputOptions {
  std::vector<std::string> paths;
  std::string partial;  ///< file of a partial result; empty: text or JSON is written
};

/// Partial results that were written with names cannot be made confidential any more.
void require_hidden(const collector::ProcessRecord& record, const std::string& partial,
                    const collector::Reading& reading) {
  if (!reading.sanitizer.is_confidential() || record.confidential) return;
  throw collector::UsageError(collector::escape(partial) +
                              " was made without --confidential: make it anew with it");
}

std::vector<collector::ProcessRecord> read_all(const MergeInputs& inputs,
                                               collector::Reading reading) {
  collector::ProcessSet set;
  ProgressBar bar;
  reading.search.cache = std::make_shared<collector::ModuleCache>();
  for (const std::string& log : inputs.logs) set.add_log(log, reading, bar.callback());
  for (const std::string& partial : inputs.partials) {
    for (collector::ProcessRecord& record : collector::read_partial(partial)) {
      require_hidden(record, partial, reading);
      set.add(std::move(record));
    }
  }
  bar.clear();
  if (set.repeated() > 0)
    say("{} logs came more than once, in partial results; each counts once", set.repeated());
  return collector::with_outside_looks(inputs.logs, set.take());
}

int merge(const MergeOptions& options) {
  const MergeInputs inputs = find_merge_inputs(options.paths);
  const std::string out = options.partial.empty() ? options.out : expand_host(options.partial);
  for (const auto* files : {&inputs.logs, &inputs.partials}) require_output(out, *files);
  std::vector<collector::ProcessRecord> processes = read_all(inputs, options.reading);
  if (processes.empty()) throw collector::UsageError("there are no logs in what was given");
  const bool whole =
      inputs.unreadable == 0 && are_whole(processes, &collector::ProcessRecord::quality);
  if (!options.partial.empty()) {
    write_output(out, [&](std::ostream& to) {
      collector::write_partial(std::move(processes), GPUPEAK_VERSION, to);
    });
  } else {
    const collector::Merged merged = collector::merge(std::move(processes));
    write_output(
        out, [&](std::ostream& to) { collector::write_merge(merged, to, view_style(options)); });
  }
  if (inputs.unreadable > 0)
    say("{} files named as logs cannot be read, and are left out", inputs.unreadable);
  return strict_code(options.strict, whole);
}

}  // namespace

void add_merge(CommandLine& line) {
  auto [verb, options] =
      line.add("merge", "What several processes of one run, children or ranks, held at once", merge,
               R"(  gpupeak merge rank0.gplog rank1.gplog
  srun --ntasks-per-node=1 gpupeak merge --partial parts.%h.gpmerge logs
  gpupeak merge parts.*.gpmerge                 the same as of all logs at once)");
  add_required(verb, "log", options.paths, "FILE ...",
               "Their logs, partial results, or folders of them");
  auto* json = verb.add_flag("--json", options.json, "As JSON");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_value(verb, "--partial", options.partial, "FILE",
            "Write a partial result, which merge takes in place of its logs; %h host")
      ->excludes(json)
      ->excludes("--out");
  add_text_options(verb, options.text);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
