#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/export/tables.h"
#include "collector/log/log_reader.h"
#include "collector/log/pack_log.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "command_line.h"
#include "commands.h"
#include "duckdb.h"
#include "exit_codes.h"
#include "say.h"
#include "terminal.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;
using collector::Table;

struct TablesOptions {
  std::string folder;
  std::vector<std::string> logs;
  std::string run;  ///< whose ranks the logs are; empty: each is a run of its own
  std::vector<std::string> labels;
  std::string duckdb, format = "auto";
  size_t top = 100;
  bool quiet = false;
  collector::Reading reading;
};

std::map<std::string, std::string> labels_of(const TablesOptions& options) {
  std::map<std::string, std::string> labels;
  const collector::Sanitizer& sanitizer = options.reading.sanitizer;
  for (const std::string& label : options.labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0)
      throw collector::UsageError("--label " + collector::escape(label) + ": give NAME=VALUE");
    labels[sanitizer.text(label.substr(0, equals))] = sanitizer.text(label.substr(equals + 1));
  }
  return labels;
}

/// It is part of file names.
void check_run(const std::string& run) {
  for (const char c : run) {
    const bool fits =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    if (!fits)
      throw collector::UsageError("--run " + collector::escape(run) +
                                  ": letters, digits, '-', '_' and '.' alone");
  }
  if (run.starts_with('.')) throw collector::UsageError("--run does not begin with a dot");
}

std::unique_ptr<DuckDb> engine(const TablesOptions& options) {
  if (options.format == "ndjson") return nullptr;
  const char* variable = getenv("GPUPEAK_DUCKDB");
  const std::string library = !options.duckdb.empty() ? options.duckdb
                              : variable != nullptr   ? variable
                                                      : "";
  auto found = DuckDb::load(library);
  if (found != nullptr) return found;
  if (!library.empty())
    throw collector::UsageError(collector::escape(library) +
                                " cannot be loaded as DuckDB's library");
  if (options.format == "parquet")
    throw collector::UsageError(
        "Parquet takes DuckDB's library: give --duckdb FILE; npm's @duckdb/node-bindings-linux-x64 "
        "has a libduckdb.so (docs/fleet.md)");
  return nullptr;
}

/// Writes one file of one run for each table, over those of the same run.
class Writer {
 public:
  Writer(const TablesOptions& options, DuckDb* duckdb) : options_(options), duckdb_(duckdb) {}

  void write(const std::string& run, const std::vector<collector::Summary>& ranks,
             const std::map<std::string, std::string>& labels) {
    const std::string day =
        "day=" + ranks.front().run.start_time.substr(0, sizeof "2026-11-22" - 1);
    for (const Table& table : collector::tables_of(run, ranks, labels)) {
      const fs::path folder = fs::path(options_.folder) / table.name / day;
      fs::create_directories(folder);
      // A name that no engine's pattern takes while it is not whole.
      const fs::path rows = folder / ("." + run + ".rows");
      const fs::path file = folder / (run + (duckdb_ != nullptr ? ".parquet" : ".ndjson.zst"));
      const fs::path fresh = folder / ("." + run + ".fresh");
      try {
        if (duckdb_ != nullptr) {
          put(rows, [&](std::ostream& out) { out << table.rows; });
          duckdb_->run(copy(table, rows, fresh));
        } else {
          put(fresh, [&](std::ostream& out) { pack(table.rows, out); });
        }
        fs::rename(fresh, file);
      } catch (...) {
        unlink(rows.c_str());
        unlink(fresh.c_str());
        throw;
      }
      unlink(rows.c_str());
    }
  }

 private:
  template <typename Write>
  static void put(const fs::path& path, Write write) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    write(out);
    out.close();
    if (!out) throw std::runtime_error("cannot write " + collector::escape(path.string()));
  }
  static void pack(const std::string& rows, std::ostream& out) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(rows.data());
    collector::write_packed({bytes, rows.size()}, "", out, {});
  }
  static std::string copy(const Table& table, const fs::path& rows, const fs::path& file) {
    std::string columns;
    for (const collector::TableColumn& column : table.columns)
      columns += fmt::format("{}{}: '{}'", columns.empty() ? "" : ", ", column.name, column.type);
    return fmt::format(
        "COPY (FROM read_json({}, format = 'newline_delimited', columns = {{{}}})) TO {} "
        "(FORMAT parquet, COMPRESSION zstd)",
        sql_text(rows.string()), columns, sql_text(file.string()));
  }

  const TablesOptions& options_;
  DuckDb* const duckdb_;
};

int tables(const TablesOptions& options) {
  const std::map<std::string, std::string> labels = labels_of(options);
  check_run(options.run);
  std::error_code error;
  if (fs::exists(options.folder, error) && !fs::is_directory(options.folder, error))
    throw collector::UsageError(collector::escape(options.folder) +
                                " is a file; the folder for the tables comes first");
  const std::unique_ptr<DuckDb> duckdb = engine(options);
  Writer writer(options, duckdb.get());
  collector::Options analysis;
  analysis.reading = options.reading;
  analysis.top = options.top;
  analysis.stacks = false;
  ProgressBar bar;
  std::vector<collector::Summary> ranks;
  for (const std::string& path : options.logs) {
    const collector::LogReader log(path, options.reading.sanitizer);
    ranks.push_back(collector::analyze(log, path, analysis, bar.callback()));
    ranks.back().log_path = options.reading.sanitizer.text(path);
    if (!options.run.empty()) continue;
    writer.write(fmt::format("{:016x}", log.header().cookie), ranks, labels);
    ranks.clear();
  }
  if (!ranks.empty()) writer.write(options.run, ranks, labels);
  bar.clear();
  if (options.quiet) return kOk;
  say("{} {} in {}, as {}", options.run.empty() ? options.logs.size() : 1,
      options.run.empty() && options.logs.size() > 1 ? "runs" : "run",
      collector::escape(options.folder),
      duckdb != nullptr ? "Parquet by DuckDB " + duckdb->version()
                        : "newline JSON, compressed by zstd");
  return kOk;
}

}  // namespace

void add_tables(CommandLine& line) {
  auto [verb, options] =
      line.add("tables", "Runs as tables for DuckDB, ClickHouse, Spark and Trino", tables);
  verb.add_option("folder", options.folder, "Where the tables are, or are to be")
      ->required()
      ->type_name("FOLDER");
  verb.add_option("log", options.logs, "Logs, each of a run of its own")
      ->required()
      ->type_name("FILE ...");
  verb.add_option("--run", options.run, "The logs are the ranks of one run, of this name")
      ->type_name("NAME");
  verb.add_option("--label", options.labels, "Added to the runs; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
  verb.add_option("--format", options.format,
                  "Parquet takes DuckDB's library; auto: if it is there")
      ->check(one_of({"auto", "parquet", "ndjson"}))
      ->capture_default_str();
  verb.add_option("--duckdb", options.duckdb,
                  "DuckDB's library; else GPUPEAK_DUCKDB, or the loader's")
      ->type_name("FILE");
  add_top(verb, options.top, "Holders of a peak that have a row each");
  verb.add_flag("-q,--quiet", options.quiet, "Say nothing");
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
