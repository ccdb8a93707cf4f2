// A database with the tables, columns and numbers of Nsight Systems' export, as far as they fit
// what is known, so that SQL for that export runs here. The rest is in GPUPEAK_ tables. SqlRows are
// written as the events come.

#include <fmt/format.h>
#include <sqlite3.h>

#include <concepts>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "collector/analyze/analyze.h"
#include "collector/export/export.h"
#include "collector/log/kinds.h"
#include "collector/run/run_logs.h"
#include "collector/summary/site_title.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

// A thin layer over SQLite: statements are prepared once, and failures throw. Made for sqlite.cc.
class Database {
 public:
  /// Makes a new file; it is only safe after finish(). Throws std::runtime_error, as all functions
  /// do.
  explicit Database(const std::string& path) : path_(path) {
    // Only one thread uses it, so it needs no locks.
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr) != SQLITE_OK) {
      const std::string reason = sqlite3_errmsg(handle_);
      sqlite3_close(handle_);
      throw std::runtime_error(fmt::format("cannot write {}: {}", path, reason));
    }
    // An unfinished file is thrown away, so it needs no journal.
    run("PRAGMA journal_mode = OFF");
    run("PRAGMA synchronous = OFF");
    run("PRAGMA locking_mode = EXCLUSIVE");
    run("BEGIN");
  }
  ~Database() { sqlite3_close(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void run(const char* sql) {
    if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  }
  /// Commits: the file is whole then.
  void finish() { run("COMMIT"); }
  sqlite3* handle() { return handle_; }
  /// Throws what SQLite says of the last failure.
  [[noreturn]] void fail() const {
    throw std::runtime_error(fmt::format("cannot write {}: {}", path_, sqlite3_errmsg(handle_)));
  }

 private:
  std::string path_;
  sqlite3* handle_ = nullptr;
};

/// An INSERT: the values of its columns are bound, then it runs.
class Insert {
 public:
  Insert(Database& database, std::string_view table, size_t columns, size_t rows = 1)
      : database_(database) {
    std::string row = "(?";
    for (size_t i = 1; i < columns; ++i) row += ",?";
    row += ')';
    std::string sql = fmt::format("INSERT INTO {} VALUES {}", table, row);
    for (size_t i = 1; i < rows; ++i) sql += ',' + row;
    if (sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK)
      database.fail();
  }
  ~Insert() { sqlite3_finalize(statement_); }
  Insert(const Insert&) = delete;
  Insert& operator=(const Insert&) = delete;

  /// Binds the values of one row and runs.
  template <class... Values>
  void operator()(const Values&... values) {
    int column = 0;
    (bind(++column, values), ...);
    step();
  }

  /// A bound value stays for the next step(). A text must last until then.
  template <std::integral Value>
  void bind(int column, Value value) {
    sqlite3_bind_int64(statement_, column, static_cast<int64_t>(value));
  }
  void bind(int column, std::string_view value) {
    sqlite3_bind_text(statement_, column, value.data(), static_cast<int>(value.size()),
                      SQLITE_STATIC);
  }
  void bind(int column, std::nullopt_t) { sqlite3_bind_null(statement_, column); }
  template <class T>
  void bind(int column, const std::optional<T>& value) {
    if (value) return bind(column, *value);
    bind(column, std::nullopt);
  }
  void step() {
    const int result = sqlite3_step(statement_);
    sqlite3_reset(statement_);
    if (result != SQLITE_DONE) database_.fail();
  }

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

/// Writes a table of millions of rows. One INSERT writes many rows, since to begin and end one
/// takes longer than a row. Only values that differ from the last ones in the same place are bound.
/// Texts must last until finish().
template <class... Columns>
class SqlRows {
 public:
  SqlRows(Database& database, std::string_view table)
      : one_(database, table, kColumns), many_(database, table, kColumns, kRows) {
    rows_.reserve(kRows);
  }

  void operator()(const Columns&... values) {
    const Row row(values...);
    const bool first = count_ == rows_.size();
    if (first) rows_.push_back(row);
    bind(row, first, std::index_sequence_for<Columns...>());
    rows_[count_] = row;
    if (++count_ < kRows) return;
    many_.step();
    count_ = 0;
  }
  /// Call it after the last row.
  void finish() {
    for (size_t i = 0; i < count_; ++i) std::apply(one_, rows_[i]);
    count_ = 0;
  }

 private:
  using Row = std::tuple<Columns...>;
  static constexpr size_t kColumns = sizeof...(Columns);
  static constexpr size_t kMostBound = 999;  // every version of SQLite takes so many
  static constexpr size_t kRows = kMostBound / kColumns;

  template <size_t... Places>
  void bind(const Row& row, bool all, std::index_sequence<Places...>) {
    const int before = static_cast<int>(count_ * kColumns) + 1;
    const auto bind_one = [&](int place, const auto& value, const auto& old) {
      if (all || value != old) many_.bind(before + place, value);
    };
    (bind_one(Places, std::get<Places>(row), std::get<Places>(rows_[count_])), ...);
  }

  Insert one_, many_;
  std::vector<Row> rows_;
  size_t count_ = 0;  // rows that are not yet written
};

constexpr const char* kSchema = R"(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_MEM_KIND VALUES
  (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'),
  (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'),
  (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'),
  (3, 'CUDA_MEMOPR_MEMORY_KIND_ARRAY', 'Array'),
  (4, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED', 'Managed'),
  (5, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC', 'Device Static'),
  (6, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC', 'Managed Static'),
  (7, 'CUDA_MEMOPR_MEMORY_KIND_UNKNOWN', 'Unknown');
CREATE TABLE ENUM_CUDA_DEV_MEM_EVENT_OPER (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_DEV_MEM_EVENT_OPER VALUES
  (0, 'CUDA_DEV_MEM_EVENT_OPR_ALLOCATION', 'Allocation'),
  (1, 'CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION', 'Deallocation');
CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (
  start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER,
  address INTEGER NOT NULL, pc INTEGER NOT NULL, bytes INTEGER NOT NULL,
  memKind INTEGER NOT NULL REFERENCES ENUM_CUDA_MEM_KIND(id),
  memoryOperationType INTEGER NOT NULL REFERENCES ENUM_CUDA_DEV_MEM_EVENT_OPER(id),
  name TEXT, correlationId INTEGER, streamId INTEGER, localMemoryPoolAddress INTEGER,
  localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER,
  localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER,
  importedMemoryPoolProcessId INTEGER,
  callchainId INTEGER REFERENCES CUDA_CALLCHAINS(id), gpupeakKind TEXT, globalTid INTEGER);
CREATE TABLE CUDA_CALLCHAINS (
  id INTEGER NOT NULL, symbol INTEGER REFERENCES StringIds(id),
  module INTEGER REFERENCES StringIds(id), unresolved INTEGER, originalIP INTEGER,
  stackDepth INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (
  start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER,
  textId INTEGER REFERENCES StringIds(id), domainId INTEGER);
CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES
  (59, 'NvtxPushPopRange', 'NVTX Push/Pop Range'), (60, 'NvtxStartEndRange', 'NVTX Start/End Range');
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames (nameId INTEGER REFERENCES StringIds(id), priority INTEGER,
  globalTid INTEGER);
CREATE TABLE TARGET_INFO_GPU (id INTEGER PRIMARY KEY, name TEXT, totalMemory INTEGER, uuid TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT);
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE GPUPEAK_CHANGES (
  start INTEGER NOT NULL, bytes INTEGER NOT NULL, blocks INTEGER NOT NULL, kind TEXT NOT NULL,
  deviceId INTEGER, callchainId INTEGER, globalTid INTEGER);
CREATE TABLE GPUPEAK_PEAKS (scope TEXT PRIMARY KEY, bytes INTEGER NOT NULL, time INTEGER NOT NULL,
  phase TEXT);
CREATE TABLE GPUPEAK_HOLDERS (
  scope TEXT NOT NULL, bytes INTEGER NOT NULL, blocks INTEGER NOT NULL, kind TEXT NOT NULL,
  site TEXT NOT NULL, phase TEXT, callchainId INTEGER, globalTid INTEGER);
CREATE TABLE GPUPEAK_METRICS (name TEXT PRIMARY KEY, value INTEGER);
CREATE TABLE GPUPEAK_DEVICE_METRICS (deviceId INTEGER NOT NULL, name TEXT NOT NULL, value INTEGER);
CREATE TABLE GPUPEAK_WARNINGS (code TEXT, message TEXT);
)";

constexpr int kPushPopRange = 59, kStartEndRange = 60;
enum NsightKind : int { kPinned = 1, kDevice = 2, kArray = 3, kManaged = 4 };

std::optional<int> nsight_kind(uint8_t kind) {
  static const std::map<uint8_t, int> kKinds{
      {GPUPEAK_KIND_PINNED, kPinned},  {GPUPEAK_KIND_LINEAR, kDevice}, {GPUPEAK_KIND_POOL, kDevice},
      {GPUPEAK_KIND_VMM, kDevice},     {GPUPEAK_KIND_GRAPH, kDevice},  {GPUPEAK_KIND_ARRAY, kArray},
      {GPUPEAK_KIND_MANAGED, kManaged}};
  const int* const known = value_in(kKinds, kind);
  return known != nullptr ? std::optional(*known) : std::nullopt;
}

class Tables : public PhaseSlices {
 public:
  Tables(Profile& profile, std::optional<ScopeId> only, Database& database)
      : profile_(profile),
        only_(only),
        pid_(static_cast<uint64_t>(profile.log().header().pid) << kPidShift),
        strings_(database, "StringIds", 2),
        events_(database, "CUDA_GPU_MEMORY_USAGE_EVENTS", 21),
        chains_(database, "CUDA_CALLCHAINS"),
        ranges_(database, "NVTX_EVENTS", 7),
        changes_(database, "GPUPEAK_CHANGES"),
        known_chains_(profile.definitions().nodes().size()) {}

  void write_run(Database& database) {
    Insert metadata(database, "META_DATA_EXPORT", 2);
    metadata("EXPORTER", "gpupeak");
    metadata("LOG", profile_.definitions().shown(profile_.path()));
    Insert start(database, "TARGET_INFO_SESSION_START_TIME", 2);
    start(profile_.log().header().start_realtime_ns, std::nullopt);
    Insert gpus(database, "TARGET_INFO_GPU", 4);
    uint64_t row = 0;
    for (const DeviceInfo& device : profile_.definitions().devices()) {
      // A damaged log may have a device twice, or out of order.
      if (row++ != device.ordinal) continue;
      gpus(device.ordinal, escape(device.name), device.total_bytes,
           profile_.definitions().sanitizer().id(device.uuid));
    }
    Insert processes(database, "PROCESSES", 3);
    processes(pid_, profile_.log().header().pid, profile_.definitions().shown_fact("exe"));
    Insert threads(database, "ThreadNames", 3);
    for (const auto& [tid, name] : profile_.replay().thread_names())
      threads(string(profile_.definitions().shown(name)), std::nullopt, pid_ | tid);
  }

  void write_peaks(Database& database) {
    Insert peaks(database, "GPUPEAK_PEAKS", 4);
    Insert holders(database, "GPUPEAK_HOLDERS", 8);
    for (const ScopeId scope : profile_.scopes()) {
      const PeakFinder::Scope& sum = profile_.sum(scope);
      const std::string& name = profile_.scope_info(scope).name;
      peaks(name, sum.peak, profile_.to_ns(sum.peak_ticks), profile_.phase_at_peak(scope));
      for (const Contribution& part : profile_.at_peak(scope)) {
        const Site& info = profile_.replay().sites().info(part.group);
        const SiteContext& context = profile_.replay().sites().context_of(part.group);
        holders(name, part.bytes, part.count, kind_path(context.kind),
                profile_.sites().site_title(info.stack), profile_.sites().phase_name(context.phase),
                chain(info.stack), pid_ | context.tid);
      }
    }
  }

  /// Call it after the last event and the last peak.
  void finish_rows() {
    chains_.finish();
    changes_.finish();
  }

  /// `run_name`: ExportOptions::run.
  void write_summary(Database& database, const std::string& run_name) {
    Options options;
    options.stacks = false;  // only figures are needed
    Summary summary = summarize(profile_, options);
    if (!run_name.empty()) add_what_run_saw(run_name, summary.metrics);
    Insert metrics(database, "GPUPEAK_METRICS", 2);
    for (const auto& [name, value] : summary.metrics) metrics(name, value);
    Insert device_metrics(database, "GPUPEAK_DEVICE_METRICS", 3);
    for (const DeviceSummary& device : summary.devices) {
      for (const auto& [name, value] : device.metrics)
        device_metrics(static_cast<int64_t>(device.ordinal), name, value);
    }
    Insert warnings(database, "GPUPEAK_WARNINGS", 2);
    for (const Warning& warning : profile_.quality().warnings)
      warnings(code_text(warning.code), warning.message);
  }

 private:
  /// Nsight's globalPid is pid << 24; its globalTid is globalPid plus the thread's id.
  static constexpr unsigned kPidShift = 24;
  struct FrameNames {
    int64_t function = 0, module = 0;  ///< ids of their texts
  };
  struct Phase {
    int64_t begin_ns;
    std::string name;
  };

  bool shown(uint8_t kind, int32_t device) const {
    return !only_ || counts_into(SiteContext{kind, device}, profile_.scope_info(*only_));
  }

  /// Makes times strictly ascending: each row of a table is at least a nanosecond later than the
  /// row before. Else a running sum in SQL, ordered by time, would add rows of equal time in one
  /// step.
  static int64_t later(int64_t& last, int64_t ns) {
    last = std::max(ns, last + 1);
    return last;
  }

  int64_t now_ns() const { return profile_.to_ns(replay().last_ticks()); }

  void on_step(std::span<const PeakFinder::Change> step) override {
    for (const PeakFinder::Change& change : step) {
      const SiteContext& context = replay().sites().context_of(change.group);
      if (nsight_kind(context.kind) || !shown(context.kind, context.device)) continue;
      const uint32_t stack = replay().sites().info(change.group).stack;
      changes_(later(last_change_ns_, now_ns()), change.bytes, change.count,
               kind_path(context.kind), device(context.device), chain(stack), pid_ | context.tid);
    }
  }

  void on_block_alloc(const DeviceBlock& block) override { event(block, 0); }
  void on_block_free(const DeviceBlock& block) override { event(block, 1); }

  void event(const DeviceBlock& block, int operation) {
    const std::optional<int> kind = nsight_kind(block.alloc.kind);
    if (!kind || !shown(block.alloc.kind, block.alloc.device)) return;
    const uint32_t stack = block.alloc.stack;
    const uint64_t pc = stack == 0 ? 0 : profile_.definitions().nodes()[stack].ip;
    std::optional<uint64_t> pool;
    if (block.alloc.aux != 0) pool = block.alloc.aux;
    events_(later(last_event_ns_, now_ns()), pid_, device(block.alloc.device), block.alloc.context,
            block.alloc.address, pc, block.alloc.bytes, *kind, operation,
            profile_.definitions().shown_string(block.alloc.api), std::nullopt, std::nullopt, pool,
            std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt, chain(stack),
            kind_path(block.alloc.kind), pid_ | block.tid);
  }

  static std::optional<int64_t> device(int32_t ordinal) {
    return ordinal < 0 ? std::nullopt : std::optional<int64_t>(ordinal);
  }

  /// The rows of a stack are written when it comes for the first time.
  std::optional<uint32_t> chain(uint32_t stack) {
    if (stack == 0) return std::nullopt;
    if (known_chains_[stack]) return stack;
    known_chains_[stack] = true;
    int64_t depth = 0;
    for (const Call& call : profile_.calls_to_write(stack)) {
      const Frame& frame = *call.frame;
      const auto [names, added] = frame_names_.try_emplace(&frame);
      if (added) {
        names->second.function = string(frame_name(frame));  // ids are given in this order
        names->second.module = string(frame.module);
      }
      chains_(stack, names->second.function, names->second.module, frame.function.empty(),
              frame.address, depth++);
    }
    return stack;
  }

  int64_t string(const std::string& text) {
    const auto [entry, added] =
        string_ids_.try_emplace(text, static_cast<int64_t>(string_ids_.size()));
    if (added) strings_(entry->second, text);
    return entry->second;
  }

  void on_slice_begin(uint32_t track, std::string_view name, uint64_t ticks) override {
    phases_[track].push_back({profile_.to_ns(ticks), std::string(name)});
  }
  void on_slice_end(uint32_t track, uint64_t ticks) override {
    const uint32_t tid = track == kProcessTrack ? profile_.log().header().pid : track;
    range(kPushPopRange, phases_[track], ticks, pid_ | tid);
  }
  void on_range_begin(uint64_t id, const PhaseLabel& label, uint64_t ticks) override {
    open_ranges_[id].push_back({profile_.to_ns(ticks), phase_text(replay(), label)});
  }
  void on_range_end(uint64_t id, const PhaseLabel& /*label*/, uint64_t ticks) override {
    range(kStartEndRange, open_ranges_[id], ticks, std::nullopt);
  }
  void range(int type, std::vector<Phase>& open, uint64_t ticks,
             std::optional<uint64_t> global_tid) {
    const Phase& phase = open.back();
    ranges_(phase.begin_ns, profile_.to_ns(ticks), type, phase.name, global_tid, std::nullopt,
            std::nullopt);
    open.pop_back();
  }

  void add_what_run_saw(const std::string& run_name, Metrics& metrics) const {
    const RunLogs run = logs_of_run(run_name);
    for (const RunLog& log : run.logs) {
      if (log.path == profile_.path()) add_outside_look(run, log, metrics);
    }
  }

  Profile& profile_;
  const std::optional<ScopeId> only_;
  const uint64_t pid_;
  Insert strings_, events_;
  SqlRows<uint32_t, int64_t, int64_t, bool, uint64_t, int64_t> chains_;
  Insert ranges_;
  SqlRows<int64_t, int64_t, int, std::string_view, std::optional<int64_t>, std::optional<uint32_t>,
          uint64_t>
      changes_;
  std::vector<bool> known_chains_;
  std::unordered_map<std::string, int64_t> string_ids_;
  std::unordered_map<const Frame*, FrameNames> frame_names_;
  std::unordered_map<uint32_t, std::vector<Phase>> phases_;
  std::unordered_map<uint64_t, std::vector<Phase>> open_ranges_;
  int64_t last_event_ns_ = -1, last_change_ns_ = -1;
};

}  // namespace

void export_sqlite(Profile& profile, const ExportOptions& options, const std::string& path) {
  std::optional<ScopeId> only;
  if (!options.scope.empty()) only = profile.scope(options.scope);
  Database database(path);
  database.run(kSchema);
  Tables tables(profile, only, database);
  tables.write_run(database);
  profile.replay_again(tables, options.progress);
  tables.write_peaks(database);
  tables.finish_rows();
  tables.write_summary(database, options.run);
  database.finish();
}

}  // namespace gpupeak::collector
