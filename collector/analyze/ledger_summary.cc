#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "collector/analyze/summary_parts.h"
#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

/// Rows that are always metrics; the others are metrics only if they are not 0.
constexpr std::array<std::string_view, 7> kStandingRows = {
    "context", "code", "local_memory", "streams", "rounding", "pool_slack", "unexplained"};

}  // namespace

LedgerView ledger_view(const LedgerSnapshot& snapshot, const TicksToNs& to_ns,
                       const Definitions& definitions) {
  LedgerView view;
  view.time_ns = to_ns(snapshot.ticks);
  view.used_bytes = snapshot.used;
  view.tracked_bytes = snapshot.tracked.total();
  view.by_failed_call = snapshot.by_failed_call;
  view.of_process = snapshot.of_process;
  view.card_used_bytes = snapshot.card_used;
  view.others_bytes = snapshot.others;
  for (const DriverReadingEvent::Process& other : snapshot.processes)
    view.others.push_back({other.pid, definitions.shown_string(other.name), other.bytes, false});
  const auto row = [&](std::string_view cause, int64_t bytes) {
    const bool stands =
        !snapshot.others_moved && std::ranges::find(kStandingRows, cause) != kStandingRows.end();
    if (bytes != 0 || stands) view.rows.push_back({std::string(cause), bytes});
  };
  if (snapshot.start && !snapshot.of_process) row("start", static_cast<int64_t>(*snapshot.start));
  row("external", snapshot.external);
  for (uint8_t cause = GPUPEAK_LEDGER_CONTEXT; cause < GPUPEAK_LEDGER_LIMIT; ++cause) {
    if (cause == GPUPEAK_LEDGER_ARRAYS) continue;  // it is in "rounding"
    // Without a reading before the first context, both are one.
    const bool with_start =
        cause == GPUPEAK_LEDGER_CONTEXT && !snapshot.start && !snapshot.of_process;
    row(!with_start             ? ledger_cause_name(cause)
        : snapshot.others_moved ? "others_and_context"
                                : "start_and_context",
        snapshot.causes[cause]);
  }
  row("rounding", snapshot.linear_rounding + snapshot.causes[GPUPEAK_LEDGER_ARRAYS]);
  row("pool_slack", static_cast<int64_t>(snapshot.tracked.pool_reserved) -
                        static_cast<int64_t>(snapshot.tracked.of[GPUPEAK_KIND_POOL]));
  row("host", snapshot.host);
  row("unexplained", snapshot.unexplained);
  return view;
}

std::optional<DeviceLedgerSummary> summarize_ledger(const DeviceLedger& ledger,
                                                    const TicksToNs& to_ns,
                                                    const Definitions& definitions,
                                                    const LedgerItemName& name_of, size_t top) {
  if (!ledger.at_peak() || !ledger.last()) return std::nullopt;
  DeviceLedgerSummary summary;
  summary.source = ledger.by_nvml() ? "nvml" : "cuMemGetInfo";
  summary.at_peak = ledger_view(*ledger.at_peak(), to_ns, definitions);
  summary.at_exit = ledger_view(*ledger.last(), to_ns, definitions);
  summary.overlaps = ledger.overlaps();
  summary.uncertain_readings = ledger.uncertain();
  std::map<std::pair<uint8_t, std::string>, LedgerItem> items;
  for (const auto& [key, item] : ledger.items()) {
    if (ledger.last()->others_moved) break;  // what these calls took is not known
    const auto& [cause, name, api, stack] = key;
    const std::string title = name_of(cause, name, api, stack);
    LedgerItem& row = items[{cause, title}];
    row.cause = ledger_cause_name(cause);
    row.name = title;
    row.bytes += item.bytes;
    row.count += item.count;
  }
  for (auto& [key, item] : items) {
    if (item.bytes != 0) summary.items.push_back(std::move(item));
  }
  std::ranges::stable_sort(summary.items, std::ranges::greater(), &LedgerItem::bytes);
  if (summary.items.size() > top) summary.items.resize(top);
  for (const DeviceLedger::Point& point : ledger.curve())
    summary.readings.emplace_back(to_ns(point.ticks), point.used);
  return summary;
}

void add_ledger_metrics(const DeviceLedger* ledger,
                        const std::optional<DeviceLedgerSummary>& summary, Metrics& metrics) {
  metrics["device.driver_used.peak_bytes"] = std::nullopt;
  metrics["device.external_start_bytes"] = std::nullopt;
  metrics["device.nvml_process.peak_bytes"] = std::nullopt;
  metrics["device.driver_reserve_bytes"] = std::nullopt;
  for (const std::string_view row : kStandingRows)
    metrics["device.ledger." + std::string(row) + "_bytes"] = std::nullopt;
  metrics["device.ledger.graph_reserve_bytes"] = std::nullopt;
  if (ledger == nullptr || !summary) return;
  metrics["device.driver_used.peak_bytes"] = ledger->highest()->used;
  metrics["device.external_start_bytes"] = ledger->others_at_start();
  metrics["device.nvml_process.peak_bytes"] = ledger->own_peak();
  metrics["device.driver_reserve_bytes"] = ledger->reserved();
  metrics["device.ledger.graph_reserve_bytes"] = ledger->at_peak()->tracked.of[GPUPEAK_KIND_GRAPH];
  for (const LedgerRow& row : summary->at_peak.rows) {
    // Metrics have no sign. Unexplained bytes are as bad in either direction. A cause that gave
    // back more than it took is only in the rows.
    std::optional<uint64_t>& value = metrics["device.ledger." + row.cause + "_bytes"];
    if (row.bytes >= 0 || row.cause == "unexplained")
      value = static_cast<uint64_t>(std::llabs(row.bytes));
  }
}

}  // namespace gpupeak::collector
