#include "collector/write_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace gpupeak::collector {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json metrics_json(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = nullable(value);
  return json;
}

Json frame_json(const Frame& frame) {
  Json json;
  json["address"] = fmt::format("{:#x}", frame.address);
  json["module"] = text_or_null(frame.module);
  if (!frame.module.empty()) json["offset"] = fmt::format("{:#x}", frame.offset);
  json["function"] = text_or_null(frame.function);
  json["file"] = text_or_null(frame.file);
  json["line"] = frame.line > 0 ? Json(frame.line) : Json(nullptr);
  return json;
}

Json holder_json(const Holder& holder) {
  Json json;
  json["kind"] = holder.kind;
  json["bytes"] = holder.bytes;
  json["count"] = holder.count;
  json["site"] = holder.title;
  if (!holder.api.empty()) json["api"] = holder.api;
  json["module"] = text_or_null(holder.module);
  json["phase"] = nullable(holder.phase);
  json["thread"] = nullable(holder.thread_id);
  json["temporary"] = holder.temporary;
  if (!holder.stack.empty()) {
    Json stack = Json::array();
    for (const Frame& frame : holder.stack) stack.push_back(frame_json(frame));
    json["stack"] = std::move(stack);
  }
  return json;
}

Json holders_json(const std::vector<Holder>& holders) {
  Json json = Json::array();
  for (const Holder& holder : holders) json.push_back(holder_json(holder));
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
  const bool known = run.exit_kind != ExitKind::kUnknown;
  const char* kind = run.exit_kind == ExitKind::kSignal ? "signal" : "exit";
  json["exit"] = {{"kind", known ? kind : "unknown"},
                  {"code", known ? Json(run.exit_code) : Json(nullptr)}};
  json["labels"] = Json::object();
  for (const auto& [key, value] : run.labels) json["labels"][key] = value;
  return json;
}

Json device_json(const DeviceSummary& device) {
  return {{"ordinal", device.ordinal},
          {"uuid", device.uuid},
          {"name", device.name},
          {"total_bytes", device.total_bytes},
          {"metrics", metrics_json(device.metrics)}};
}

Json peak_json(const Peak& peak) {
  Json json;
  json["scope"] = peak.scope;
  json["bytes"] = peak.bytes;
  json["time_ns"] = peak.time_ns;
  json["phase"] = nullable(peak.phase);
  if (peak.trigger) json["trigger"] = holder_json(*peak.trigger);
  json["holders"] = holders_json(peak.holders);
  json["other_bytes"] = peak.other_bytes;
  return json;
}

Json phase_json(const PhaseSummary& phase) {
  Json json;
  json["name"] = phase.name;
  json["source"] = phase.source;
  json["parent"] = nullable(phase.parent);
  json["count"] = phase.count;
  json["begin_ns"] = phase.begin_ns;
  json["end_ns"] = nullable(phase.end_ns);
  json["metrics"] = metrics_json(phase.metrics);
  const auto site = [&](const char* name, const std::optional<Holder>& holder) {
    json[name] = holder ? holder_json(*holder) : Json(nullptr);
  };
  site("biggest_new_device_site", phase.biggest_new_device_site);
  site("biggest_new_host_site", phase.biggest_new_host_site);
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
  json["phase"] = nullable(oom.phase);
  json["site"] = oom.title;
  json["holders"] = holders_json(oom.holders);
  return json;
}

Json quality_json(const Quality& quality) {
  Json json;
  json["exact"] = quality.exact;
  json["log_complete"] = quality.log_complete;
  json["events"] = quality.events;
  json["device_events"] = quality.device_events;
  json["host_events"] = quality.host_events;
  json["dropped_events"] = quality.dropped_events;
  json["truncated_stacks"] = quality.truncated_stacks;
  json["unmatched_frees"] = quality.unmatched_frees;
  json["unknown_heap_frees"] = quality.unknown_heap_frees;
  json["repairs"] = quality.repairs;
  json["hooks_missing"] = quality.hooks_missing;
  json["warnings"] = Json::array();
  for (const Warning& warning : quality.warnings) {
    json["warnings"].push_back({{"code", warning.code}, {"message", warning.message}});
  }
  return json;
}

template <class T, class ToJson>
Json list_json(const std::vector<T>& values, ToJson to_json) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(to_json(value));
  return json;
}

}  // namespace

void write_json(const Summary& summary, std::ostream& out) {
  Json json;
  json["schema"] = "gpupeak.summary/1";
  json["tool"] = {{"version", summary.tool_version}, {"log_format", summary.log_format}};
  json["run"] = run_json(summary.run);
  json["quality"] = quality_json(summary.quality);
  json["devices"] = list_json(summary.devices, device_json);
  json["metrics"] = metrics_json(summary.metrics);
  json["peaks"] = list_json(summary.peaks, peak_json);
  json["phases"] = list_json(summary.phases, phase_json);
  json["oom"] = list_json(summary.oom, oom_json);
  json["oom_count"] = summary.oom_count;
  json["live_at_exit"] = holders_json(summary.live_at_exit);
  json["temporary"] = holders_json(summary.temporaries);
  out << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace gpupeak::collector
