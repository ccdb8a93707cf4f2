#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "collector/export/export.h"
#include "collector/files/fresh_file.h"
#include "collector/log/packed_log.h"
#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {
namespace {

double seconds(int64_t ns) {
  return static_cast<double>(ns) / kNsPerSecond;
}

Json exit_kind(const RunEnd& end) {
  if (end.kind == ExitKind::kUnknown) return nullptr;
  return end.kind == ExitKind::kExit ? "exit" : "signal";
}

std::string program(const Summary& summary) {
  if (summary.run.command.empty()) return "";
  return std::string(file_name(summary.run.command.front()));
}

/// The device with the highest peak; of several, the first. nullptr: the run used none.
const DeviceSummary* fullest(const Summary& summary) {
  const auto most = std::ranges::max_element(summary.devices, {}, [](const DeviceSummary& device) {
    return metric(device.metrics, "device.peak_bytes").value_or(0);
  });
  return most == summary.devices.end() ? nullptr : &*most;
}

/// Stands for a column that a row does not have.
struct NoValue {};

/// A table while it gets its rows.
class TableRows {
 public:
  /// `columns`: "run VARCHAR; bytes UBIGINT".
  TableRows(const char* name, std::string_view columns) : table_{name, {}, ""} {
    while (!columns.empty()) {
      const std::string_view one = columns.substr(0, columns.find(';'));
      const size_t space = one.find(' ');
      table_.columns.push_back(
          {std::string(one.substr(0, space)), std::string(one.substr(space + 1))});
      columns.remove_prefix(std::min(columns.size(), one.size() + 2));
    }
  }

  /// A value for each column, in their order.
  template <class... Values>
  void add(const std::string& day, const Values&... values) {
    if (sizeof...(values) != table_.columns.size())
      throw std::logic_error("tables: a row has another number of values than of columns");
    Json row = object("day", day);
    auto column = table_.columns.begin();
    (put(row, *column++, values), ...);
    // Names may be any bytes; bytes that are not UTF-8 are replaced.
    table_.rows += row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  /// Numbers rows that may be equal in all other columns, so that run and number are a key.
  uint64_t next() { return ++last_; }
  Table take() { return std::move(table_); }

 private:
  template <class Value>
  static void put(Json& row, const TableColumn& column, const Value& value) {
    if constexpr (!std::is_same_v<Value, NoValue>) row[column.name] = JsonFields::json_of(value);
  }

  Table table_;
  uint64_t last_ = 0;
};

/// The day on which the first rank began, in UTC: "2026-11-22".
std::string day_of(const std::vector<Summary>& ranks) {
  const auto first = std::ranges::min_element(
      ranks, {}, [](const auto& rank) -> const auto& { return rank.run.start_time; });
  return first->run.start_time.substr(0, sizeof "2026-11-22" - 1);
}

class RunTables {
 public:
  RunTables(const TablesRun& run, const std::vector<Summary>& ranks)
      : run_(run), day_(day_of(ranks)) {}

  void add(const Summary& summary) {
    add_rank(summary);
    for (const Peak& peak : summary.peaks) add_peak(summary, peak);
    for (const PhaseSummary& phase : summary.phases) add_phase(summary, phase);
    for (const ArenaSummary& arena : summary.arenas) add_arena(summary, arena);
    for (const OutOfMemory& failure : summary.oom) add_failure(summary, failure);
  }

  void add_run(const std::vector<Summary>& ranks) {
    const Summary& first = ranks.front();
    std::map<std::string, std::string> labels = first.run.labels;
    for (const auto& [name, value] : run_.labels) labels[name] = value;
    std::optional<uint64_t> device, host;
    std::string started = first.run.start_time;
    int64_t longest = 0;
    size_t failed = 0;
    bool exact = true, complete = true;
    for (const Summary& rank : ranks) {
      device = std::max(device, metric(rank.metrics, "device.peak_bytes"));
      host = std::max(host, metric(rank.metrics, "host.peak_bytes"));
      started = std::min(started, rank.run.start_time);
      longest = std::max(longest, rank.run.duration_ns);
      failed += rank.run.end.kind != ExitKind::kUnknown && !rank.run.end.in_order() ? 1 : 0;
      exact = exact && rank.quality.exact;
      complete = complete && rank.quality.log_complete;
    }
    runs_.add(day_, run_.name, run_.part, text_or_null(program(first)),
              text_or_null(command_text(first.run)), text_or_null(started), seconds(longest),
              ranks.size(), run_.expected_ranks, failed, device, host, exact, complete, labels,
              first.tool_version);
  }

  std::vector<Table> take() {
    TableRows* const all[] = {&runs_, &ranks_, &peaks_, &holders_, &phases_, &pools_, &failures_};
    return list_of(all, &TableRows::take);
  }

 private:
  /// `values`: of the columns behind run, log and rank.
  template <class... Values>
  void put(TableRows& rows, const Summary& summary, const Values&... values) {
    rows.add(day_, run_.name, summary.log_path, summary.run.rank, values...);
  }

  void add_rank(const Summary& summary) {
    const RunSummary& run = summary.run;
    const DeviceSummary* device = fullest(summary);
    const bool has_ledger = device != nullptr && device->ledger.has_value();
    Json overhead = nullptr;
    if (has_ledger) {
      const LedgerView& view = device->ledger->at_peak;
      overhead = static_cast<int64_t>(view.used_bytes) - static_cast<int64_t>(view.tracked_bytes);
    }
    const uint64_t card_bytes = device != nullptr ? device->total_bytes : 0;
    const bool ended = run.end.kind != ExitKind::kUnknown;
    put(ranks_, summary, text_or_null(run.host), run.pid, text_or_null(run.start_time),
        seconds(run.duration_ns), exit_kind(run.end), json_if(ended, run.end.code),
        metric(summary.metrics, "device.peak_bytes"), metric(summary.metrics, "host.peak_bytes"),
        metric(summary.metrics, "host.rss.peak_bytes"),
        device != nullptr ? text_or_null(device->name) : Json(nullptr),
        json_if(card_bytes > 0, card_bytes), overhead, summary.quality.dropped_events,
        summary.quality.exact, summary.quality.log_complete);
  }

  void add_peak(const Summary& summary, const Peak& peak) {
    put(peaks_, summary, peak.scope, peak.bytes, peak.error_bytes, seconds(peak.time_ns),
        peak.phase);
    for (const Holder& holder : peak.holders)
      put(holders_, summary, holders_.next(), peak.scope, holder.title, holder.kind,
          text_or_null(holder.module), holder.phase, holder.bytes, holder.error_bytes,
          holder.count);
    if (peak.other_bytes == 0) return;
    // A row for the others, so that the holders of a peak add up to it.
    constexpr NoValue kNone;
    put(holders_, summary, holders_.next(), peak.scope, kNone, kNone, kNone, kNone,
        peak.other_bytes, kNone, kNone);
  }

  void add_phase(const Summary& summary, const PhaseSummary& phase) {
    const auto value = [&](const char* name) { return metric(phase.metrics, name); };
    put(phases_, summary, phases_.next(), phase.name, phase.parent, phase.source, phase.depth,
        phase.count, seconds(phase.open_ns), value("device.peak_bytes"), value("device.kept_bytes"),
        value("host.peak_bytes"), value("host.kept_bytes"));
  }

  void add_arena(const Summary& summary, const ArenaSummary& arena) {
    const auto of_whole = [&arena](uint64_t bytes) {
      return arena.older ? std::nullopt : std::optional(bytes);
    };
    put(pools_, summary, pools_.next(), arena.name, arena.device, arena.peak_bytes,
        of_whole(arena.at_peak.idle_bytes()), of_whole(arena.reserved_peak_bytes),
        arena.failed_count);
  }

  void add_failure(const Summary& summary, const OutOfMemory& failure) {
    const Json cause = failure.causes.empty()
                           ? Json(nullptr)
                           : Json(std::string(cause_name(failure.causes.front().cause)));
    put(failures_, summary, failures_.next(), seconds(failure.time_ns), failure.device,
        text_or_null(failure.api), failure.requested_bytes, failure.driver_free_bytes,
        failure.driver_total_bytes, cause, failure.phase, text_or_null(failure.title));
  }

  const TablesRun& run_;
  const std::string day_;
  TableRows runs_{"runs",
                  "run VARCHAR; part VARCHAR; program VARCHAR; command VARCHAR; started TIMESTAMP; "
                  "duration_s DOUBLE; ranks UBIGINT; expected_ranks UBIGINT; failed_ranks UBIGINT; "
                  "device_peak_bytes UBIGINT; host_peak_bytes UBIGINT; exact BOOLEAN; "
                  "complete BOOLEAN; labels MAP(VARCHAR, VARCHAR); version VARCHAR"};
  TableRows ranks_{
      "ranks",
      "run VARCHAR; log VARCHAR; rank INTEGER; host VARCHAR; pid UBIGINT; started TIMESTAMP; "
      "duration_s DOUBLE; exit_kind VARCHAR; exit_code INTEGER; device_peak_bytes UBIGINT; "
      "host_peak_bytes UBIGINT; rss_peak_bytes UBIGINT; card VARCHAR; card_bytes UBIGINT; "
      "card_overhead_bytes BIGINT; lost_events UBIGINT; exact BOOLEAN; complete BOOLEAN"};
  TableRows peaks_{"peaks",
                   "run VARCHAR; log VARCHAR; rank INTEGER; scope VARCHAR; bytes UBIGINT; "
                   "error_bytes UBIGINT; time_s DOUBLE; phase VARCHAR"};
  TableRows holders_{
      "holders",
      "run VARCHAR; log VARCHAR; rank INTEGER; number UBIGINT; scope VARCHAR; name VARCHAR; kind "
      "VARCHAR; module VARCHAR; phase VARCHAR; bytes UBIGINT; error_bytes UBIGINT; blocks UBIGINT"};
  TableRows phases_{
      "phases",
      "run VARCHAR; log VARCHAR; rank INTEGER; number UBIGINT; phase VARCHAR; parent VARCHAR; "
      "source VARCHAR; depth INTEGER; instances UBIGINT; open_s DOUBLE; device_peak_bytes UBIGINT; "
      "device_kept_bytes UBIGINT; host_peak_bytes UBIGINT; host_kept_bytes UBIGINT"};
  TableRows pools_{"pools",
                   "run VARCHAR; log VARCHAR; rank INTEGER; number UBIGINT; pool VARCHAR; device "
                   "INTEGER; in_use_peak_bytes UBIGINT; idle_then_bytes UBIGINT; "
                   "reserved_peak_bytes UBIGINT; refused UBIGINT"};
  TableRows failures_{"failures",
                      "run VARCHAR; log VARCHAR; rank INTEGER; number UBIGINT; time_s DOUBLE; "
                      "device INTEGER; api VARCHAR; requested_bytes UBIGINT; free_bytes UBIGINT; "
                      "total_bytes UBIGINT; cause VARCHAR; phase VARCHAR; name VARCHAR"};
};

/// `ranks`: the logs of the run, one at least.
std::vector<Table> tables_of(const TablesRun& run, const std::vector<Summary>& ranks) {
  RunTables tables(run, ranks);
  tables.add_run(ranks);
  for (const Summary& rank : ranks) tables.add(rank);
  return tables.take();
}

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

/// The text as a string literal of SQL.
std::string sql_text(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

std::string copy_statement(const Table& table, const std::string& rows, const std::string& file) {
  std::string columns;
  for (const TableColumn& column : table.columns)
    columns += fmt::format("{}{}: '{}'", columns.empty() ? "" : ", ", column.name, column.type);
  return fmt::format(
      "COPY (FROM read_json({}, format = 'newline_delimited', hive_partitioning = false, columns = "
      "{{{}}})) TO {} (FORMAT parquet, COMPRESSION zstd)",
      sql_text(rows), columns, sql_text(file));
}

}  // namespace

/// DuckDB by its C interface, loaded when it is needed to write Parquet. Not needed to build
/// gpupeak.
class DuckDb {
 public:
  /// `library`: path of a libduckdb.so; empty: the one that the loader finds. Returns nullptr if
  /// none can be loaded.
  static std::unique_ptr<DuckDb> load(const std::string& library) {
    void* const loaded = library.empty() ? open_system_library("libduckdb.so")
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

TablesFolder::TablesFolder(std::string folder, const std::string& format, const std::string& duckdb)
    : folder_(std::move(folder)), duckdb_(format == "ndjson" ? nullptr : DuckDb::load(duckdb)) {
  if (format == "ndjson" || duckdb_ != nullptr) return;
  if (!duckdb.empty()) throw UsageError(escape(duckdb) + " cannot be loaded as DuckDB's library");
  if (format == "parquet")
    throw UsageError(
        "Parquet takes DuckDB's library: give --duckdb FILE; npm's @duckdb/node-bindings-linux-x64 "
        "has a libduckdb.so (docs/fleet.md)");
}
TablesFolder::~TablesFolder() = default;

void TablesFolder::write(const TablesRun& whole, const std::vector<Summary>& ranks) const {
  const std::string day = "day=" + day_of(ranks);
  const std::string run = whole.part.empty() ? whole.name : whole.name + "." + whole.part;
  std::vector<Table> tables = tables_of(whole, ranks);
  // The table of runs comes last: if it has the run, the other tables have it, too.
  std::rotate(tables.begin(), tables.begin() + 1, tables.end());
  for (const Table& table : tables) {
    const Descriptor folder = inner_folder(folder_, std::string(table.name) + "/" + day);
    // Until a file is whole it has a name that no engine's pattern matches.
    const std::string file =
        path_in(folder, run + (duckdb_ != nullptr ? ".parquet" : ".ndjson.zst"));
    if (duckdb_ == nullptr) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(table.rows.data());
      write_fresh(file, [&](std::ostream& out) {
        write_packed({bytes, table.rows.size()}, "", out, {});
      });
      continue;
    }
    write_fresh_by_name(file, [&](const std::string& fresh) {
      const std::string rows = fresh + ".rows";
      write_fresh(rows, [&](std::ostream& out) { out << table.rows; });
      duckdb_->run(copy_statement(table, rows, fresh));
    });
  }
}

std::string TablesFolder::form() const {
  return duckdb_ != nullptr ? "Parquet by DuckDB " + duckdb_->version()
                            : "newline JSON, compressed by zstd";
}

}  // namespace gpupeak::collector
