#include "collector/export/tables.h"

#include <algorithm>
#include <optional>

#include "collector/summary/run_text.h"
#include "collector/text/text_format.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {
namespace {

constexpr double kNsPerSecond = 1e9;

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
  const DeviceSummary* most = nullptr;
  const auto peak = [](const DeviceSummary& device) {
    return metric(device.metrics, "device.peak_bytes").value_or(0);
  };
  for (const DeviceSummary& device : summary.devices) {
    if (most == nullptr || peak(device) > peak(*most)) most = &device;
  }
  return most;
}

/// Of "run VARCHAR; bytes UBIGINT".
std::vector<TableColumn> columns(std::string_view text) {
  std::vector<TableColumn> found;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(';'));
    const size_t name = one.find(' ');
    found.push_back({std::string(one.substr(0, name)), std::string(one.substr(name + 1))});
    text.remove_prefix(std::min(text.size(), one.size() + 2));
  }
  return found;
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
    put(runs_,
        object("day, run, part, program, command, started, duration_s, ranks, expected_ranks, "
               "failed_ranks, device_peak_bytes, host_peak_bytes, exact, complete, labels, version",
               day_, run_.name, run_.part, text_or_null(program(first)),
               text_or_null(command_text(first.run)), text_or_null(started), seconds(longest),
               ranks.size(), run_.expected_ranks, failed, device, host, exact, complete, labels,
               first.tool_version));
  }

  std::vector<Table> take() {
    return {
        {"runs",
         columns("run VARCHAR; part VARCHAR; program VARCHAR; command VARCHAR; started TIMESTAMP; "
                 "duration_s DOUBLE; ranks UBIGINT; expected_ranks UBIGINT; failed_ranks UBIGINT; "
                 "device_peak_bytes UBIGINT; host_peak_bytes UBIGINT; exact BOOLEAN; "
                 "complete BOOLEAN; labels MAP(VARCHAR, VARCHAR); version VARCHAR"),
         std::move(runs_)},
        {"ranks",
         columns(
             "run VARCHAR; log VARCHAR; rank INTEGER; host VARCHAR; pid UBIGINT; "
             "started TIMESTAMP; duration_s DOUBLE; exit_kind VARCHAR; exit_code INTEGER; "
             "device_peak_bytes UBIGINT; host_peak_bytes UBIGINT; rss_peak_bytes UBIGINT; "
             "card VARCHAR; card_bytes UBIGINT; card_overhead_bytes BIGINT; lost_events UBIGINT; "
             "exact BOOLEAN; complete BOOLEAN"),
         std::move(ranks_)},
        {"peaks",
         columns("run VARCHAR; log VARCHAR; rank INTEGER; scope VARCHAR; bytes UBIGINT; "
                 "error_bytes UBIGINT; time_s DOUBLE; phase VARCHAR"),
         std::move(peaks_)},
        {"holders",
         columns("run VARCHAR; log VARCHAR; rank INTEGER; number UBIGINT; scope VARCHAR; "
                 "name VARCHAR; kind VARCHAR; module VARCHAR; phase VARCHAR; bytes UBIGINT; "
                 "error_bytes UBIGINT; blocks UBIGINT"),
         std::move(holders_)},
        {"phases",
         columns("run VARCHAR; log VARCHAR; rank INTEGER; number UBIGINT; phase VARCHAR; "
                 "parent VARCHAR; source VARCHAR; depth INTEGER; instances UBIGINT; open_s DOUBLE; "
                 "device_peak_bytes UBIGINT; device_kept_bytes UBIGINT; host_peak_bytes UBIGINT; "
                 "host_kept_bytes UBIGINT"),
         std::move(phases_)},
        {"pools",
         columns("run VARCHAR; log VARCHAR; rank INTEGER; number UBIGINT; pool VARCHAR; "
                 "device INTEGER; in_use_peak_bytes UBIGINT; idle_then_bytes UBIGINT; "
                 "reserved_peak_bytes UBIGINT; refused UBIGINT"),
         std::move(pools_)},
        {"failures",
         columns("run VARCHAR; log VARCHAR; rank INTEGER; number UBIGINT; time_s DOUBLE; "
                 "device INTEGER; api VARCHAR; requested_bytes UBIGINT; free_bytes UBIGINT; "
                 "total_bytes UBIGINT; cause VARCHAR; phase VARCHAR; name VARCHAR"),
         std::move(failures_)},
    };
  }

 private:
  /// Names may be any bytes; bytes that are not UTF-8 are replaced.
  static void put(std::string& rows, const Json& row) {
    rows += row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  Json of(const Summary& summary) const {
    return object("day, run, log, rank", day_, run_.name, summary.log_path, summary.run.rank);
  }
  /// Gives numbers to rows that may be equal in all other columns, so that run and number are a
  /// key.
  Json numbered(const Summary& summary, uint64_t& last) const {
    return with(of(summary), object("number", ++last));
  }
  static Json with(Json row, const Json& more) {
    row.update(more);
    return row;
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
    put(ranks_,
        with(of(summary),
             object("host, pid, started, duration_s, exit_kind, exit_code, "
                    "device_peak_bytes, host_peak_bytes, rss_peak_bytes, card, card_bytes, "
                    "card_overhead_bytes, lost_events, exact, complete",
                    text_or_null(run.host), run.pid, text_or_null(run.start_time),
                    seconds(run.duration_ns), exit_kind(run.end), json_if(ended, run.end.code),
                    metric(summary.metrics, "device.peak_bytes"),
                    metric(summary.metrics, "host.peak_bytes"),
                    metric(summary.metrics, "host.rss.peak_bytes"),
                    device != nullptr ? text_or_null(device->name) : Json(nullptr),
                    json_if(card_bytes > 0, card_bytes), overhead, summary.quality.dropped_events,
                    summary.quality.exact, summary.quality.log_complete)));
  }

  void add_peak(const Summary& summary, const Peak& peak) {
    put(peaks_,
        with(of(summary), object("scope, bytes, error_bytes, time_s, phase", peak.scope, peak.bytes,
                                 peak.error_bytes, seconds(peak.time_ns), peak.phase)));
    for (const Holder& holder : peak.holders) {
      put(holders_, with(numbered(summary, holders_numbered_),
                         object("scope, name, kind, module, phase, bytes, error_bytes, blocks",
                                peak.scope, holder.title, holder.kind, text_or_null(holder.module),
                                holder.phase, holder.bytes, holder.error_bytes, holder.count)));
    }
    if (peak.other_bytes == 0) return;
    // A row for the others, so that the holders of a peak add up to it.
    put(holders_, with(numbered(summary, holders_numbered_),
                       object("scope, bytes", peak.scope, peak.other_bytes)));
  }

  void add_phase(const Summary& summary, const PhaseSummary& phase) {
    const auto value = [&](const char* name) { return nullable(metric(phase.metrics, name)); };
    put(phases_,
        with(numbered(summary, phases_numbered_),
             object("phase, parent, source, depth, instances, open_s, device_peak_bytes, "
                    "device_kept_bytes, host_peak_bytes, host_kept_bytes",
                    phase.name, phase.parent, phase.source, phase.depth, phase.count,
                    seconds(phase.open_ns), value("device.peak_bytes"), value("device.kept_bytes"),
                    value("host.peak_bytes"), value("host.kept_bytes"))));
  }

  void add_arena(const Summary& summary, const ArenaSummary& arena) {
    const auto of_whole = [&arena](uint64_t bytes) {
      return nullable(arena.older ? std::nullopt : std::optional(bytes));
    };
    put(pools_,
        with(
            numbered(summary, pools_numbered_),
            object("pool, device, in_use_peak_bytes, idle_then_bytes, reserved_peak_bytes, refused",
                   arena.name, arena.device, arena.peak_bytes, of_whole(arena.at_peak.idle_bytes()),
                   of_whole(arena.reserved_peak_bytes), arena.failed_count)));
  }

  void add_failure(const Summary& summary, const OutOfMemory& failure) {
    const Json cause = failure.causes.empty()
                           ? Json(nullptr)
                           : Json(std::string(cause_name(failure.causes.front().cause)));
    put(failures_,
        with(
            numbered(summary, failures_numbered_),
            object(
                "time_s, device, api, requested_bytes, free_bytes, total_bytes, cause, phase, name",
                seconds(failure.time_ns), failure.device, text_or_null(failure.api),
                failure.requested_bytes, failure.driver_free_bytes, failure.driver_total_bytes,
                cause, failure.phase, text_or_null(failure.title))));
  }

  const TablesRun& run_;
  const std::string day_;
  std::string runs_, ranks_, peaks_, holders_, phases_, pools_, failures_;
  uint64_t holders_numbered_ = 0, phases_numbered_ = 0, pools_numbered_ = 0, failures_numbered_ = 0;
};

}  // namespace

std::string day_of(const std::vector<Summary>& ranks) {
  const auto first = std::ranges::min_element(
      ranks, [](const auto& a, const auto& b) { return a.run.start_time < b.run.start_time; });
  return first->run.start_time.substr(0, sizeof "2026-11-22" - 1);
}

std::vector<Table> tables_of(const TablesRun& run, const std::vector<Summary>& ranks) {
  RunTables tables(run, ranks);
  tables.add_run(ranks);
  for (const Summary& rank : ranks) tables.add(rank);
  return tables.take();
}

}  // namespace gpupeak::collector
