#include "collector/write/whole_run_json.h"

#include "collector/summary/whole_run_text.h"

namespace gpupeak::collector {
namespace {

Json sum_json(const WholeRun::Sum& sum) {
  Json json;
  if (!sum.node.empty()) json["node"] = sum.node;
  json["name"] = sum.name;
  if (!sum.uuid.empty()) json["uuid"] = sum.uuid;
  if (sum.ordinal) json["ordinal"] = *sum.ordinal;
  if (sum.total_bytes > 0) json["total_bytes"] = sum.total_bytes;
  json["peak_bytes"] = nullable(sum.peak_bytes);
  json["error_bytes"] = nullable(sum.error_bytes);
  json["peak_time_ns"] = sum.peak_time_ns;
  json["sum_of_peaks_bytes"] = nullable(sum.sum_of_peaks_bytes);
  return json;
}

Json process_json(const WholeRun::Process& process) {
  Json json;
  json["log"] = process.log;
  json["pid"] = process.pid;
  json["rank"] = nullable(process.rank);
  json["program"] = text_or_null(process.program);
  json["started"] = process.started;
  json["exit"] = exit_json(process.end);
  json["begin_ns"] = process.begin_ns;
  json["devices"] = Json::array();
  for (const WholeRun::OfDevice& held : process.devices) {
    json["devices"].push_back({{"device", held.device},
                               {"peak_bytes", held.peak_bytes},
                               {"at_peak_bytes", nullable(held.at_peak_bytes)}});
  }
  json["device_peak_bytes"] = nullable(process.device_peak_bytes);
  json["host_peak_bytes"] = nullable(process.host_peak_bytes);
  json["heap_peak_bytes"] = nullable(process.heap_peak_bytes);
  json["forked"] = process.forked;
  json["rss_peak_bytes"] = nullable(process.rss_peak_bytes);
  json["holder"] = process.holder.empty()
                       ? Json(nullptr)
                       : Json{{"site", process.holder}, {"bytes", process.holder_bytes}};
  json["exact"] = process.exact;
  json["events_lost"] = process.events_lost;
  json["log_complete"] = process.complete;
  return json;
}

Json not_recorded_json(const WholeRun::NotRecorded& process) {
  Json json{{"pid", process.pid},
            {"program", text_or_null(process.program)},
            {"why", text_or_null(process.why)},
            {"used_gpu", process.used_gpu},
            {"went_on", process.went_on},
            {"rss_bytes", nullable(process.rss_bytes)},
            {"devices", Json::array()}};
  for (const WholeRun::NotRecorded::Held& held : process.held)
    json["devices"].push_back(
        {{"name", held.device}, {"uuid", held.uuid}, {"nvml_bytes", held.bytes}});
  return json;
}

Json still_running_json(const WholeRun::StillRunning& process) {
  return {{"pid", process.pid},
          {"program", text_or_null(process.program)},
          {"log", text_or_null(process.log)},
          {"why", text_or_null(process.why)},
          {"rss_bytes", nullable(process.rss_bytes)}};
}

template <class T, class ToJson>
Json array_json(const std::vector<T>& values, ToJson to_json) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(to_json(value));
  return json;
}

}  // namespace

Json whole_run_json(const Summary& summary) {
  const WholeRun& run = *summary.whole_run;
  Json json;
  json["log"] = run.log;
  json["complete"] = is_complete(summary);
  json["missing"] = missing_from(run, {});
  json["recorded_by_run"] = run.is_recorded;
  json["descendants_watched"] = run.watched;
  json["lost_logs"] = run.lost_logs;
  json["lead"] = run.lead;
  json["processes"] = array_json(run.processes, process_json);
  json["devices"] = array_json(run.devices, sum_json);
  json["all_devices"] = run.all_devices ? sum_json(*run.all_devices) : Json(nullptr);
  json["host"] = run.host ? sum_json(*run.host) : Json(nullptr);
  json["not_recorded"] = array_json(run.not_recorded, not_recorded_json);
  json["still_running"] = array_json(run.still_running, still_running_json);
  json["memory_kill"] = nullptr;
  if (run.memory_kill) {
    json["memory_kill"] = {{"limit_bytes", run.memory_kill->limit_bytes},
                           {"cgroup", text_or_null(run.memory_kill->cgroup)},
                           {"kills", run.memory_kill->kills},
                           {"started_process", run.memory_kill->started_process},
                           {"likely", run.memory_kill->likely}};
  }
  json["metrics"] = Json::object();
  for (const auto& [name, value] : run.metrics) json["metrics"][name] = nullable(value);
  return json;
}

}  // namespace gpupeak::collector
