#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "collector/analyze/analyze.h"
#include "collector/export/export.h"
#include "collector/log/log_reader.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

struct TablesOptions {
  std::string folder;
  std::vector<std::string> logs;
  std::string run;      ///< the run whose ranks the logs are; empty: each log is a run of its own
  std::string partial;  ///< which part of the run the logs are; empty: all of it
  uint64_t ranks = 0;   ///< how many the whole run has; 0: not said
  std::vector<std::string> labels;
  std::string duckdb, format = "auto";
  size_t top = 100;
  bool quiet = false;
  collector::Reading reading;
};

/// Checks the run's name, which is a part of file names.
void check_name(const std::string& option, const std::string& name) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (!std::ranges::all_of(name, fits))
    throw collector::UsageError(option + " " + collector::escape(name) +
                                ": letters, digits, '-', '_' and '.' alone");
  if (name.starts_with('.')) throw collector::UsageError(option + " does not begin with a dot");
}

int tables(const TablesOptions& options) {
  collector::TablesRun run{
      options.run, "", {}, labels_of(options.labels, options.reading.sanitizer)};
  check_name("--run", options.run);
  if (options.ranks > 0) run.expected_ranks = options.ranks;
  const std::string part = expand_host(options.partial);
  check_name("--partial", part);
  run.part = options.reading.sanitizer.text(part);
  std::error_code error;
  if (fs::exists(options.folder, error) && !fs::is_directory(options.folder, error))
    throw collector::UsageError(collector::escape(options.folder) +
                                " is a file; the folder for the tables comes first");
  const char* variable = getenv("GPUPEAK_DUCKDB");
  const collector::TablesFolder folder(
      options.folder, options.format,
      options.duckdb.empty() && variable != nullptr ? variable : options.duckdb);
  const collector::Options analysis{
      .reading = options.reading, .top = options.top, .stacks = false};
  ProgressBar bar;
  std::vector<collector::Summary> ranks;
  for (const std::string& path : options.logs) {
    const collector::LogReader log(path, options.reading.sanitizer, options.reading.heap);
    ranks.push_back(collector::analyze(log, path, analysis, bar.callback()));
    // Parts of a run come from several nodes, whose logs may have the same names.
    ranks.back().log_path = options.reading.sanitizer.text(part.empty() ? path : part + ":" + path);
    if (!options.run.empty()) continue;
    run.name = fmt::format("{:016x}", log.header().cookie);
    folder.write(run, ranks);
    ranks.clear();
  }
  if (!ranks.empty()) folder.write(run, ranks);
  bar.clear();
  if (options.quiet) return kOk;
  say("{} {} in {}, as {}", options.run.empty() ? options.logs.size() : 1,
      options.run.empty() && options.logs.size() > 1 ? "runs" : "run",
      collector::escape(options.folder), folder.form());
  return kOk;
}

}  // namespace

void add_tables(CommandLine& line) {
  auto [verb, options] =
      line.add("tables", "Runs as tables for DuckDB, ClickHouse, Spark and Trino", tables,
               R"(  gpupeak tables history train.gplog
  gpupeak tables --run job4711 --label commit=1a2b3c history rank*.gplog)");
  add_required(verb, "folder", options.folder, "FOLDER", "Where the tables are, or are to be");
  add_required(verb, "log", options.logs, "FILE ...", "Logs, each of a run of its own");
  add_value(verb, "--run", options.run, "NAME", "The logs are the ranks of one run, of this name");
  auto* whole = verb.get_option("--run");
  add_value(verb, "--partial", options.partial, "NAME",
            "They are a part of its ranks, of this name; others write theirs beside it; %h host")
      ->needs(whole);
  add_value(verb, "--ranks", options.ranks, "N", "How many ranks the run has, on all its nodes")
      ->check(between(1, 100'000'000))
      ->needs(whole);
  add_list(verb, "--label", options.labels, "NAME=VALUE", "Added to the runs; may be repeated");
  add_choice(verb, "--format", options.format, {"auto", "parquet", "ndjson"},
             "Parquet takes DuckDB's library; auto: if it is there");
  add_value(verb, "--duckdb", options.duckdb, "FILE",
            "DuckDB's library; else GPUPEAK_DUCKDB, or the loader's");
  add_top(verb, options.top, "Holders of a peak that have a row each");
  verb.add_flag("-q,--quiet", options.quiet, "Say nothing");
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
