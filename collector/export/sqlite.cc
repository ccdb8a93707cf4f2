// A database with the tables, columns and numbers that Nsight Systems' export has, as far as they
// have a place for what is known, so that SQL written for it runs; and GPUPEAK_ tables for the
// rest. Rows are written as the events come.
#include <unordered_map>

#include "collector/analyze/analyze.h"
#include "collector/export/database.h"
#include "collector/export/event_walk.h"
#include "collector/export/export.h"
#include "collector/log/kinds.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

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
  switch (kind) {
    case GPUPEAK_KIND_PINNED:
      return kPinned;
    case GPUPEAK_KIND_LINEAR:
    case GPUPEAK_KIND_POOL:
    case GPUPEAK_KIND_VMM:
    case GPUPEAK_KIND_GRAPH:
      return kDevice;
    case GPUPEAK_KIND_ARRAY:
      return kArray;
    case GPUPEAK_KIND_MANAGED:
      return kManaged;
    default:
      return std::nullopt;
  }
}

class Tables : public EventWalk {
 public:
  Tables(Profile& profile, std::optional<ScopeId> only, Database& database)
      : EventWalk(profile),
        only_(only),
        pid_(static_cast<uint64_t>(profile.log().header().pid) << kPidShift),
        strings_(database, "StringIds", 2),
        events_(database, "CUDA_GPU_MEMORY_USAGE_EVENTS", 21),
        chains_(database, "CUDA_CALLCHAINS", 6),
        ranges_(database, "NVTX_EVENTS", 7),
        changes_(database, "GPUPEAK_CHANGES", 7),
        known_chains_(profile.definitions().nodes().size()) {}

  void write_run(Database& database) {
    Insert metadata(database, "META_DATA_EXPORT", 2);
    metadata("EXPORTER", "gpupeak");
    metadata("LOG", sanitize(profile().path()));
    Insert start(database, "TARGET_INFO_SESSION_START_TIME", 2);
    start(profile().log().header().start_realtime_ns, std::nullopt);
    Insert gpus(database, "TARGET_INFO_GPU", 4);
    uint64_t row = 0;
    for (const DeviceInfo& device : profile().definitions().devices()) {
      if (row++ != device.ordinal) continue;  // twice, or out of order: a damaged log
      gpus(device.ordinal, escape(device.name), device.total_bytes, sanitize_id(device.uuid));
    }
    Insert processes(database, "PROCESSES", 3);
    processes(pid_, profile().log().header().pid, sanitize(profile().definitions().fact("exe")));
    Insert threads(database, "ThreadNames", 3);
    for (const auto& [tid, name] : profile().replay().thread_names()) {
      threads(string(sanitize(name)), std::nullopt, pid_ | tid);
    }
  }

  void write_peaks(Database& database) {
    Insert peaks(database, "GPUPEAK_PEAKS", 4);
    Insert holders(database, "GPUPEAK_HOLDERS", 8);
    for (const ScopeId scope : profile().scopes()) {
      const PeakFinder::Scope& sum = profile().sum(scope);
      const std::string& name = profile().scope_info(scope).name;
      peaks(name, sum.peak, profile().to_ns(sum.peak_ticks), profile().phase_at_peak(scope));
      for (const Contribution& part : profile().at_peak(scope)) {
        const GroupInfo& info = profile().replay().sites().info(part.group);
        const SiteContext& context = profile().replay().sites().context_of(part.group);
        holders(name, part.bytes, part.count, kind_path(context.kind),
                profile().sites().site_title(info.stack),
                profile().sites().phase_name(context.phase), chain(info.stack), pid_ | context.tid);
      }
    }
  }

  void write_summary(Database& database) {
    Options options;
    options.stacks = false;  // the figures alone
    const Summary summary = summarize(profile(), options);
    Insert metrics(database, "GPUPEAK_METRICS", 2);
    for (const auto& [name, value] : summary.metrics) metrics(name, value);
    Insert device_metrics(database, "GPUPEAK_DEVICE_METRICS", 3);
    for (const DeviceSummary& device : summary.devices) {
      for (const auto& [name, value] : device.metrics) {
        device_metrics(static_cast<int64_t>(device.ordinal), name, value);
      }
    }
    Insert warnings(database, "GPUPEAK_WARNINGS", 2);
    for (const Warning& warning : profile().quality().warnings) {
      warnings(warning.code, warning.message);
    }
  }

 private:
  /// A globalPid is pid << 24, a globalTid that and the thread.
  static constexpr unsigned kPidShift = 24;
  struct Phase {
    int64_t begin_ns;
    std::string name;
  };

  bool shown(uint8_t kind, int32_t device) const {
    return !only_ || counts_into(SiteContext{kind, device}, profile().scope_info(*only_));
  }

  /// Sums over rows in the order of their time would add up what happens in the same nanosecond in
  /// one step: of the rows of a table, each is a nanosecond later than the one before it.
  static int64_t later(int64_t& last, int64_t ns) {
    last = std::max(ns, last + 1);
    return last;
  }

  void on_change(const LiveChange& change) override {
    const SiteContext& context = change.context;
    if (nsight_kind(context.kind) || !shown(context.kind, context.device)) return;
    changes_(later(last_change_ns_, now_ns()), change.bytes, change.blocks, kind_path(context.kind),
             device(context.device), chain(change.stack), pid_ | context.tid);
  }

  void on_driver_alloc(const DriverBlock& block) override { event(block, 0); }
  void on_driver_free(const DriverBlock& block) override { event(block, 1); }

  void event(const DriverBlock& block, int operation) {
    const std::optional<int> kind = nsight_kind(block.alloc.kind);
    if (!kind || !shown(block.alloc.kind, block.alloc.device)) return;
    const uint32_t stack = block.alloc.stack;
    const uint64_t pc = stack == 0 ? 0 : profile().definitions().nodes()[stack].ip;
    std::optional<uint64_t> pool;
    if (block.alloc.aux != 0) pool = block.alloc.aux;
    events_(later(last_event_ns_, now_ns()), pid_, device(block.alloc.device), block.alloc.context,
            block.alloc.address, pc, block.alloc.bytes, *kind, operation,
            sanitize(profile().definitions().string(block.alloc.api)), std::nullopt, std::nullopt,
            pool, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt,
            chain(stack), kind_path(block.alloc.kind), pid_ | block.tid);
  }

  static std::optional<int64_t> device(int32_t ordinal) {
    return ordinal < 0 ? std::nullopt : std::optional<int64_t>(ordinal);
  }

  /// A stack's rows are written when it is first met.
  std::optional<uint32_t> chain(uint32_t stack) {
    if (stack == 0) return std::nullopt;
    if (known_chains_[stack]) return stack;
    known_chains_[stack] = true;
    int64_t depth = 0;
    for (const Call& call : profile().calls(stack)) {
      const Frame& frame = *call.frame;
      chains_(stack, string(frame_name(frame)), string(frame.module), frame.function.empty(),
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

  void on_phase_begin(uint32_t track, std::string_view name) override {
    phases_[track].push_back({now_ns(), std::string(name)});
  }
  void on_phase_end(uint32_t track) override {
    std::vector<Phase>& open = phases_[track];
    const Phase& phase = open.back();
    const uint32_t tid = track == kProcessTrack ? profile().log().header().pid : track;
    range(kPushPopRange, phase, pid_ | tid);
    open.pop_back();
  }
  void on_range_begin(uint64_t id, std::string_view name) override {
    open_ranges_[id] = {now_ns(), std::string(name)};
  }
  void on_range_end(uint64_t id, std::string_view /*name*/) override {
    range(kStartEndRange, open_ranges_[id], std::nullopt);
    open_ranges_.erase(id);
  }
  void range(int type, const Phase& phase, std::optional<uint64_t> global_tid) {
    ranges_(phase.begin_ns, now_ns(), type, phase.name, global_tid, std::nullopt, std::nullopt);
  }

  const std::optional<ScopeId> only_;
  const uint64_t pid_;
  Insert strings_, events_, chains_, ranges_, changes_;
  std::vector<bool> known_chains_;
  std::unordered_map<std::string, int64_t> string_ids_;
  std::unordered_map<uint32_t, std::vector<Phase>> phases_;
  std::unordered_map<uint64_t, Phase> open_ranges_;
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
  tables.walk(options.progress);
  tables.write_peaks(database);
  tables.write_summary(database);
  database.finish();
}

}  // namespace gpupeak::collector
