#include "collector/write/write_json.h"

#include <fmt/format.h>

#include "collector/summary/failure_text.h"
#include "collector/summary/resident_causes.h"
#include "collector/summary/what_if_text.h"
#include "collector/text/sanitize.h"
#include "collector/write/json_values.h"
#include "collector/write/whole_run_json.h"

namespace gpupeak::collector {
namespace {

Json metrics_json(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = nullable(value);
  return json;
}

Json run_json(const RunSummary& run) {
  Json json;
  json["command"] = run.command;
  json["host"] = run.host;
  json["pid"] = run.pid;
  json["ppid"] = run.ppid;
  json["rank"] = nullable(run.rank);
  json["start_time"] = run.start_time;
  json["duration_ns"] = run.duration_ns;
  json["exit"] = exit_json(run.end);
  json["labels"] = labels_json(run.labels);
  return json;
}

Json ledger_view_json(const LedgerView& view) {
  Json json{{"time_ns", view.time_ns},
            {"used_bytes", view.used_bytes},
            {"tracked_bytes", view.tracked_bytes},
            {"rows", Json::array()}};
  for (const LedgerRow& row : view.rows)
    json["rows"].push_back({{"cause", row.cause}, {"bytes", row.bytes}});
  if (view.by_failed_call) json["by_failed_call"] = true;
  return json;
}

Json ledger_json(const DeviceLedgerSummary& ledger) {
  Json json{{"source", ledger.source},
            {"at_peak", ledger_view_json(ledger.at_peak)},
            {"at_exit", ledger_view_json(ledger.at_exit)},
            {"overlaps", ledger.overlaps},
            {"uncertain_readings", ledger.uncertain_readings},
            {"items", Json::array()},
            {"readings", Json::array()}};
  for (const LedgerItem& item : ledger.items) {
    json["items"].push_back(
        {{"cause", item.cause}, {"name", item.name}, {"bytes", item.bytes}, {"count", item.count}});
  }
  for (const auto& [time_ns, used] : ledger.readings)
    json["readings"].push_back(Json::array({time_ns, used}));
  return json;
}

Json memory_json(const DeviceMemory& memory) {
  return {{"integrated", memory.integrated},
          {"pageable_access", memory.pageable_access},
          {"host_page_tables", memory.host_page_tables},
          {"concurrent_managed", memory.concurrent_managed}};
}

Json limit_json(const CardLimit& limit) {
  return {{"bytes", limit.bytes},
          {"real_bytes", limit.real_bytes},
          {"card", limit.card.empty() ? Json(nullptr) : Json(limit.card)}};
}

Json device_json(const DeviceSummary& device) {
  return {{"ordinal", device.ordinal},
          {"uuid", device.uuid},
          {"name", device.name},
          {"total_bytes", device.total_bytes},
          {"memory", device.memory ? memory_json(*device.memory) : Json(nullptr)},
          {"limit", device.limit ? limit_json(*device.limit) : Json(nullptr)},
          {"metrics", metrics_json(device.metrics)},
          {"ledger", device.ledger ? ledger_json(*device.ledger) : Json(nullptr)}};
}

Json peak_json(const Peak& peak) {
  Json json;
  json["scope"] = peak.scope;
  json["bytes"] = peak.bytes;
  json["time_ns"] = peak.counted ? Json(nullptr) : Json(peak.time_ns);
  json["phase"] = nullable(peak.phase);
  if (peak.trigger) json["trigger"] = holder_json(*peak.trigger);
  json["holders"] = holders_json(peak.holders);
  json["other_bytes"] = peak.other_bytes;
  json["other_sites"] = peak.other_sites;
  if (peak.error_bytes) json["error_bytes"] = *peak.error_bytes;
  json["tags"] = Json::array();
  for (const TagShare& tag : peak.tags)
    json["tags"].push_back({{"name", tag.name}, {"bytes", tag.bytes}, {"count", tag.count}});
  return json;
}

Json instance_side_json(const PhaseInstanceSide& side) {
  return {{"start_bytes", side.start_bytes},
          {"peak_bytes", side.peak_bytes},
          {"end_bytes", side.end_bytes},
          {"kept_bytes", nullable(side.kept_bytes)},
          {"alloc_count", nullable(side.alloc_count)}};
}

Json instances_json(const PhaseInstances& instances) {
  Json json;
  json["first"] = instances.first;
  json["last"] = instances.last;
  json["count"] = instances.count;
  json["begin_ns"] = instances.begin_ns;
  json["end_ns"] = nullable(instances.end_ns);
  json["open_ns"] = instances.open_ns;
  json["alike"] = instances.alike;
  json["device"] = instance_side_json(instances.device);
  json["host"] = instances.host ? instance_side_json(*instances.host) : Json(nullptr);
  return json;
}

Json calls_side_json(const PhaseCallsSide& side) {
  return {{"grown_bytes", side.grown_bytes},
          {"least_growth_bytes", nullable(side.least_growth)},
          {"most_growth_bytes", nullable(side.most_growth)},
          {"largest", side.largest},
          {"largest_rise_bytes", side.largest_rise_bytes},
          {"largest_peak_bytes", side.largest_peak_bytes}};
}

Json calls_json(const PhaseCalls& calls) {
  return {{"ended", calls.ended},
          {"device", calls_side_json(calls.device)},
          {"host", calls.host ? calls_side_json(*calls.host) : Json(nullptr)}};
}

Json phase_json(const PhaseSummary& phase) {
  Json json;
  json["name"] = phase.name;
  json["source"] = phase.source;
  if (phase.of_library) json["library"] = true;
  json["parent"] = nullable(phase.parent);
  json["depth"] = phase.depth;
  if (phase.session > 0) json["session"] = phase.session;
  json["count"] = phase.count;
  if (phase.name_count > 1) json["names"] = phase.name_count;
  json["begin_ns"] = phase.begin_ns;
  json["end_ns"] = nullable(phase.end_ns);
  json["open_ns"] = phase.open_ns;
  json["instances"] = Json::array();
  for (const PhaseInstances& part : phase.instances) {
    json["instances"].push_back(instances_json(part));
  }
  if (phase.calls) json["calls"] = calls_json(*phase.calls);
  json["metrics"] = metrics_json(phase.metrics);
  const auto site = [&](const char* name, const std::optional<Holder>& holder) {
    json[name] = holder ? holder_json(*holder) : Json(nullptr);
  };
  site("biggest_new_device_site", phase.biggest_new_device_site);
  site("biggest_new_host_site", phase.biggest_new_host_site);
  return json;
}

Json arena_level_json(const ArenaSummary::Level& level) {
  return {{"in_use_bytes", level.in_use_bytes},
          {"reserved_bytes", level.reserved_bytes},
          {"idle_bytes", level.idle_bytes()}};
}

Json parts_json(const std::vector<ArenaSummary::Part>& parts) {
  Json rows = Json::array();
  for (const ArenaSummary::Part& part : parts)
    rows.push_back({{"title", part.title}, {"bytes", part.bytes}, {"count", part.count}});
  return rows;
}

/// Of an arena, or of the driver's pools.
void add_causes(const auto& arena, Json& json) {
  json["growths"] = Json::array();
  for (const ArenaSummary::Growth& growth : arena.growths) {
    json["growths"].push_back({{"title", growth.title},
                               {"time_ns", growth.time_ns},
                               {"bytes", growth.bytes},
                               {"asked_bytes", growth.asked_bytes},
                               {"in_use_bytes", growth.in_use_bytes},
                               {"reserved_bytes", growth.reserved_bytes}});
  }
  json["causes"] = Json::array();
  for (const ArenaSummary::Cause& cause : arena.causes) {
    json["causes"].push_back({{"title", cause.title},
                              {"bytes", cause.bytes},
                              {"segments", cause.segments},
                              {"largest_bytes", cause.largest_bytes},
                              {"largest_asked_bytes", cause.largest_asked_bytes},
                              {"in_use_bytes", cause.in_use_bytes},
                              {"time_ns", cause.time_ns}});
  }
  json["other_cause_bytes"] = arena.other_cause_bytes;
}

Json arena_json(const ArenaSummary& arena) {
  Json json;
  json["name"] = arena.name;
  if (arena.device) json["device"] = *arena.device;
  if (!arena.device && arena.on_host) json["device"] = nullptr;
  json["at_peak"] = arena_level_json(arena.at_peak);
  json["at_peak"]["largest_idle_bytes"] = arena.largest_idle_bytes;
  if (arena.at_device_peak) json["at_device_peak"] = arena_level_json(*arena.at_device_peak);
  json["reserved_peak_bytes"] = arena.reserved_peak_bytes;
  json["reserved_bytes"] = arena.reserved_bytes;
  json["failed_count"] = arena.failed_count;
  json["checks"] = arena.checks;
  json["contradictions"] = arena.contradictions;
  json["count"] = arena.count;
  json["capacity_bytes"] = nullable(arena.capacity_bytes);
  json["live_bytes"] = arena.live_bytes;
  json["peak_bytes"] = arena.peak_bytes;
  json["peak_time_ns"] = arena.peak_time_ns;
  json["alloc_count"] = arena.alloc_count;
  json["parts"] = parts_json(arena.parts);
  json["other_bytes"] = arena.other_bytes;
  json["at_largest"] = {{"time_ns", arena.largest.time_ns},
                        {"in_use_bytes", arena.largest.in_use_bytes},
                        {"reserved_bytes", arena.reserved_peak_bytes},
                        {"parts", parts_json(arena.largest.parts)},
                        {"other_bytes", arena.largest.other_bytes}};
  if (arena.at_device_peak) {
    json["at_device_peak"]["never_used_bytes"] = arena.never_used_bytes;
    json["at_device_peak"]["idle_in_holes_bytes"] = arena.idle_in_holes_bytes;
    json["at_device_peak"]["idle_for_graphs_bytes"] = arena.idle_for_graphs_bytes;
  }
  add_causes(arena, json);
  return json;
}

Json driver_pools_json(const DriverPoolsSummary& pools) {
  Json json{{"device", pools.device},
            {"reserved_peak_bytes", pools.reserved_peak_bytes},
            {"time_ns", pools.time_ns},
            {"in_use_bytes", pools.in_use_bytes},
            {"reserved_bytes", pools.reserved_bytes}};
  add_causes(pools, json);
  return json;
}

Json mark_json(const MarkSummary& mark) {
  Json json;
  json["name"] = mark.name;
  json["source"] = mark.source;
  if (!mark.domain.empty()) json["domain"] = mark.domain;
  if (!mark.category.empty()) json["category"] = mark.category;
  json["time_ns"] = mark.time_ns;
  json["thread_id"] = nullable(mark.thread_id);
  json["device_bytes"] = nullable(mark.device_bytes);
  json["host_bytes"] = nullable(mark.host_bytes);
  return json;
}

template <class T, class ToJson>
Json list_json(const std::vector<T>& values, ToJson to_json) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(to_json(value));
  return json;
}

Json arena_snapshot_json(const ArenaSnapshot& arena) {
  return {{"name", arena.name},
          {"in_use_bytes", arena.in_use_bytes},
          {"reserved_bytes", arena.reserved_bytes},
          {"idle_bytes", arena.idle_bytes()},
          {"largest_idle_bytes", arena.largest_idle_bytes},
          {"idle_pieces", arena.idle_pieces},
          {"graph_idle_bytes", arena.graph_idle_bytes},
          {"grows_in_place", arena.grows_in_place}};
}

Json cause_json(const OutOfMemory::Cause& cause) {
  return {{"cause", cause_name(cause.cause)}, {"bytes", cause.bytes}};
}

Json growth_json(const GrowthSummary& growth) {
  Json json;
  json["phase"] = growth.phase;
  json["source"] = growth.source;
  json["side"] = growth.side;
  if (growth.device) json["device"] = *growth.device;
  json["site"] = growth.title;
  json["first"] = growth.first;
  json["last"] = growth.last;
  json["steps"] = growth.steps();
  json["grown_bytes"] = growth.grown_bytes;
  json["bytes_each"] = growth.bytes_each();
  json["same_each_time"] = growth.same_each_time;
  json["begin_ns"] = growth.begin_ns;
  json["end_ns"] = growth.end_ns;
  json["text"] = growth_text(growth, {});
  return json;
}

Json oom_json(const OutOfMemory& oom) {
  Json json;
  json["time_ns"] = oom.time_ns;
  json["api"] = oom.api;
  if (oom.device) json["device"] = *oom.device;
  json["requested_bytes"] = oom.requested_bytes;
  json["result"] = oom.result;
  json["live_bytes"] = oom.live_bytes;
  json["driver_free_bytes"] = nullable(oom.driver_free_bytes);
  json["driver_total_bytes"] = nullable(oom.driver_total_bytes);
  json["pool_slack_bytes"] = oom.pool_slack_bytes;
  json["page_slack_bytes"] = oom.page_slack_bytes;
  json["unmapped_address_bytes"] = oom.unmapped_address_bytes;
  if (!oom.host_limit.empty()) {
    json["host_limit"] = {{"name", oom.host_limit},
                          {"bytes", oom.host_limit_bytes},
                          {"used_bytes", oom.host_limit_used_bytes}};
  }
  json["largest_fit_bytes"] = nullable(oom.largest_fit_bytes);
  json["phase"] = nullable(oom.phase);
  json["site"] = oom.title;
  json["holders"] = holders_json(oom.holders);
  json["ledger"] = oom.ledger ? ledger_view_json(*oom.ledger) : Json(nullptr);
  json["cause"] = oom.causes.empty() ? Json(nullptr) : Json(cause_name(oom.causes.front().cause));
  json["causes"] = list_json(oom.causes, cause_json);
  if (!oom.parts.empty()) json["together"] = list_json(oom.parts, cause_json);
  json["why"] = why_text(oom, {});
  json["help"] = help_text(oom, {});
  if (oom.told_by_arena) json["told_by_pool"] = true;
  if (oom.refused_by_run_limit) json["refused_by_run_limit"] = true;
  if (oom.refused_by) {
    json["refused_by"] = arena_snapshot_json(*oom.refused_by);
    json["refused_by"]["limit_bytes"] = nullable(oom.limit_bytes);
    json["refused_by"]["driver_refusals"] = oom.driver_refusals;
  }
  json["pools"] = list_json(oom.arenas, arena_snapshot_json);
  return json;
}

Json lowering_json(const std::optional<Lowering>& lowering) {
  if (!lowering || lowering->untried_requests > 0) return nullptr;
  Json rows = Json::array();
  for (const Lowering::Row& row : lowering->rows) {
    const bool exact = row.most_bytes == row.least_bytes;
    rows.push_back({{"setting", setting_name(row.setting)},
                    {"text", setting_text(row.setting)},
                    {"scope", lowering->scope},
                    {"before_bytes", lowering->before_bytes},
                    {"exact", exact},
                    {"peak_bytes", exact ? Json(row.least_bytes) : Json(nullptr)},
                    {"least_bytes", row.least_bytes},
                    {"most_bytes", nullable(row.most_bytes)},
                    {"time_ns", row.time_ns}});
  }
  return rows;
}

}  // namespace

Json summary_json(const Summary& summary) {
  Json json;
  json["schema"] = "gpupeak.summary/1";
  json["tool"] = {{"version", summary.tool_version}, {"log_format", summary.log_format}};
  if (summary.confidential) json["confidential"] = true;
  json["run"] = run_json(summary.run);
  json["quality"] = quality_json(summary.quality);
  json["devices"] = list_json(summary.devices, device_json);
  json["metrics"] = metrics_json(summary.metrics);
  json["resident"] = Json::array();
  for (const ResidentCause& cause : resident_causes(summary.metrics))
    json["resident"].push_back({{"cause", cause.text}, {"bytes", cause.bytes}});
  for (const auto& [name, value] : summary.metrics) {
    if (const auto error = error_of(summary, name)) json["metric_errors"][name] = *error;
  }
  json["grouped_by"] = summary.grouped_by;
  json["peaks"] = list_json(summary.peaks, peak_json);
  json["phases"] = list_json(summary.phases, phase_json);
  json["growth"] = list_json(summary.growth, growth_json);
  json["arenas"] = list_json(summary.arenas, arena_json);
  json["driver_pools"] = list_json(summary.driver_pools, driver_pools_json);
  json["marks"] = list_json(summary.marks, mark_json);
  json["mark_count"] = summary.mark_count;
  json["rules"] = {{"sets", summary.rules.sets}, {"automatic", summary.rules.automatic}};
  json["oom"] = list_json(summary.oom, oom_json);
  json["oom_count"] = summary.oom_count;
  json["lowering"] = lowering_json(summary.lowering);
  json["live_at_exit"] = holders_json(summary.live_at_exit);
  json["temporary"] = holders_json(summary.temporaries);
  if (summary.whole_run) json["whole_run"] = whole_run_json(summary);
  return json;
}

void write_json(const Summary& summary, std::ostream& out) {
  out << summary_json(summary).dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace gpupeak::collector
