#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/export/tables.h"
#include "collector/files/fresh_file.h"
#include "collector/log/log_reader.h"
#include "collector/log/packed_log.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/system_library.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"

namespace gpupeak::tools {
namespace {

/// The declarations of DuckDB's duckdb.h that are used. They are of its stable interface.
struct Result {
  uint64_t column_count, row_count, rows_changed;
  void *columns, *error_message, *internal_data;
};
struct Interface {
  const char* (*library_version)();
  int (*open)(const char* path, void** database);
  void (*close)(void** database);
  int (*connect)(void* database, void** connection);
  void (*disconnect)(void** connection);
  int (*query)(void* connection, const char* sql, Result* result);
  const char* (*result_error)(Result* result);
  void (*destroy_result)(Result* result);
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// DuckDB by its C interface, loaded when `tables` needs it to write Parquet. Not needed to build
/// gpupeak.
class DuckDb {
 public:
  /// `library`: path of a libduckdb.so; empty: the one that the loader finds. Returns nullptr if
  /// none can be loaded.
  static std::unique_ptr<DuckDb> load(const std::string& library) {
    void* const loaded = library.empty() ? collector::open_system_library("libduckdb.so")
                                         : dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    Interface api{};
    const bool is_whole =
        loaded != nullptr && find(loaded, "duckdb_library_version", api.library_version) &&
        find(loaded, "duckdb_open", api.open) && find(loaded, "duckdb_close", api.close) &&
        find(loaded, "duckdb_connect", api.connect) &&
        find(loaded, "duckdb_disconnect", api.disconnect) &&
        find(loaded, "duckdb_query", api.query) &&
        find(loaded, "duckdb_result_error", api.result_error) &&
        find(loaded, "duckdb_destroy_result", api.destroy_result);
    return is_whole ? std::make_unique<DuckDb>(api) : nullptr;
  }
  explicit DuckDb(const Interface& api) : api_(api) {
    if (api_.open(nullptr, &database_) != 0 || api_.connect(database_, &connection_) != 0)
      throw std::runtime_error("DuckDB does not start");
  }
  ~DuckDb() {
    if (connection_ != nullptr) api_.disconnect(&connection_);
    if (database_ != nullptr) api_.close(&database_);
  }
  /// Runs statements. Throws std::runtime_error with DuckDB's message.
  void run(const std::string& sql) {
    Result result{};
    const bool failed = api_.query(connection_, sql.c_str(), &result) != 0;
    const char* said = failed ? api_.result_error(&result) : nullptr;
    const std::string problem = said != nullptr ? said : "DuckDB does not say what is wrong";
    api_.destroy_result(&result);
    if (failed) throw std::runtime_error(problem);
  }
  std::string version() const { return api_.library_version(); }

 private:
  const Interface api_;
  void *database_ = nullptr, *connection_ = nullptr;
};

/// The text as a string literal of SQL.
std::string sql_text(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

namespace fs = std::filesystem;
using collector::Table;

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

/// Writes a file for each table, in place of earlier files of the same run.
class Writer {
 public:
  Writer(const TablesOptions& options, DuckDb* duckdb) : options_(options), duckdb_(duckdb) {}

  void write(const collector::TablesRun& whole, const std::vector<collector::Summary>& ranks) {
    const std::string day = "day=" + collector::day_of(ranks);
    const std::string run = whole.part.empty() ? whole.name : whole.name + "." + whole.part;
    std::vector<Table> tables = collector::tables_of(whole, ranks);
    // The table of runs comes last: if it has the run, the other tables have it, too.
    std::rotate(tables.begin(), tables.begin() + 1, tables.end());
    for (const Table& table : tables) {
      const collector::Descriptor folder =
          collector::inner_folder(options_.folder, std::string(table.name) + "/" + day);
      // Until a file is whole it has a name that no engine's pattern matches.
      const std::string file =
          collector::path_in(folder, run + (duckdb_ != nullptr ? ".parquet" : ".ndjson.zst"));
      if (duckdb_ == nullptr) {
        collector::write_fresh(file, [&](std::ostream& out) { pack(table.rows, out); });
        continue;
      }
      collector::write_fresh_by_name(file, [&](const std::string& fresh) {
        const std::string rows = fresh + ".rows";
        collector::write_fresh(rows, [&](std::ostream& out) { out << table.rows; });
        duckdb_->run(copy(table, rows, fresh));
      });
    }
  }

 private:
  static void pack(const std::string& rows, std::ostream& out) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(rows.data());
    collector::write_packed({bytes, rows.size()}, "", out, {});
  }
  static std::string copy(const Table& table, const std::string& rows, const std::string& file) {
    std::string columns;
    for (const collector::TableColumn& column : table.columns)
      columns += fmt::format("{}{}: '{}'", columns.empty() ? "" : ", ", column.name, column.type);
    return fmt::format(
        "COPY (FROM read_json({}, format = 'newline_delimited', hive_partitioning = false, "
        "columns = {{{}}})) TO {} (FORMAT parquet, COMPRESSION zstd)",
        sql_text(rows), columns, sql_text(file));
  }

  const TablesOptions& options_;
  DuckDb* const duckdb_;
};

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
  const std::unique_ptr<DuckDb> duckdb = engine(options);
  Writer writer(options, duckdb.get());
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
    writer.write(run, ranks);
    ranks.clear();
  }
  if (!ranks.empty()) writer.write(run, ranks);
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
