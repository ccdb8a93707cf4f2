#include "collector/write/json_values.h"
#include "collector/write/write_merge.h"

namespace gpupeak::collector {
namespace {

Json parts_json(const std::vector<HeldPart>& parts) {
  Json json = Json::array();
  for (const HeldPart& part : parts) json.push_back({{"name", part.name}, {"bytes", part.bytes}});
  return json;
}

Json peak_json(const OwnPeak& peak) {
  return {{"side", peak.side},
          {"bytes", peak.bytes},
          {"time_ns", peak.time_ns},
          {"phase", nullable(peak.phase)},
          {"tags", parts_json(peak.tags)},
          {"sites", parts_json(peak.sites)},
          {"other_bytes", peak.other_bytes}};
}

Json refusal_json(const std::optional<Refusal>& refusal) {
  if (!refusal) return nullptr;
  return {{"api", refusal->api},
          {"device", nullable(refusal->device)},
          {"requested_bytes", refusal->requested_bytes},
          {"time_ns", refusal->time_ns},
          {"phase", nullable(refusal->phase)},
          {"site", text_or_null(refusal->site)},
          {"why", text_or_null(refusal->why)},
          {"count", refusal->count}};
}

Json process_json(const ProcessRecord& process, size_t node) {
  Json peaks = Json::array();
  for (const OwnPeak& peak : process.peaks) peaks.push_back(peak_json(peak));
  return {{"log", process.log_path},
          {"node", node},
          {"command", process.run.command},
          {"host", process.run.host},
          {"pid", process.run.pid},
          {"rank", nullable(process.run.rank)},
          {"start_time", process.run.start_time},
          {"duration_ns", process.run.duration_ns},
          {"exit", exit_json(process.run.end)},
          {"peaks", std::move(peaks)},
          {"refusal", refusal_json(process.refusal)},
          {"quality", quality_json(process.quality)}};
}

Json sum_json(const MergedSum& sum) {
  Json parts = Json::array();
  for (const MergedPart& part : sum.parts) {
    parts.push_back({{"process", part.process},
                     {"peak_bytes", nullable(part.peak_bytes)},
                     {"at_peak_bytes", nullable(part.at_peak_bytes)}});
  }
  return {{"scope", sum.scope},
          {"name", sum.name},
          {"uuid", text_or_null(sum.uuid)},
          {"sum_of_peaks_bytes", nullable(sum.sum_of_peaks_bytes)},
          {"peak_bytes", nullable(sum.peak_bytes)},
          {"error_bytes", sum.error() ? Json(*sum.error()) : Json(nullptr)},
          {"peak_time_ns", sum.peak_bytes ? Json(sum.peak_time_ns) : Json(nullptr)},
          {"parts", std::move(parts)}};
}

Json node_json(const MergedNode& node) {
  Json sums = Json::array();
  for (const MergedSum& sum : node.sums) sums.push_back(sum_json(sum));
  return {{"name", node.name()},
          {"hosts", node.hosts},
          {"boot", text_or_null(node.boot)},
          {"processes", node.processes},
          {"sums", std::move(sums)}};
}

Json outlier_json(const Outlier& outlier) {
  return {{"process", outlier.process},
          {"side", outlier.side},
          {"by", outlier.by},
          {"name", text_or_null(outlier.name)},
          {"bytes", outlier.bytes},
          {"median_bytes", nullable(outlier.median_bytes)},
          {"excess_bytes", outlier.excess_bytes},
          {"compared", outlier.compared}};
}

const char* how_text(Casualty::How how) {
  switch (how) {
    case Casualty::How::kRefused:
      return "refused";
    case Casualty::How::kFailed:
      return "failed";
    case Casualty::How::kSignalled:
      break;
  }
  return "signalled";
}

Json end_json(const JobEnd& end) {
  Json casualties = Json::array();
  for (const Casualty& casualty : end.casualties) {
    casualties.push_back({{"process", casualty.process},
                          {"how", how_text(casualty.how)},
                          {"time_ns", casualty.time_ns}});
  }
  return {{"casualties", std::move(casualties)},
          {"in_order", end.in_order},
          {"not_said", end.not_said},
          {"without_end", end.without_end}};
}

/// Writes `items` one by one, as an array in the object that is being written. A thousand processes
/// as one value would take several times the memory of their text.
template <class Items, class ToJson>
void write_each(std::ostream& out, const char* name, const Items& items, ToJson to_json) {
  out << ",\n \"" << name << "\": [";
  for (size_t i = 0; i < items.size(); ++i) {
    out << (i == 0 ? "\n  " : ",\n  ")
        << to_json(items[i], i).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  out << (items.empty() ? "]" : "\n ]");
}

}  // namespace

void write_merge_json(const Merged& merged, std::ostream& out) {
  out << "{\n \"schema\": \"gpupeak.merge/2\"";
  write_each(out, "processes", merged.processes, [&](const ProcessRecord& process, size_t i) {
    return process_json(process, merged.node_of[i]);
  });
  write_each(out, "nodes", merged.nodes,
             [](const MergedNode& node, size_t) { return node_json(node); });
  write_each(out, "outliers", merged.outliers,
             [](const Outlier& outlier, size_t) { return outlier_json(outlier); });
  out << ",\n \"end\": " << end_json(merged.end).dump();
  out << ",\n \"notes\": "
      << Json(merged.notes).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n}\n";
}

}  // namespace gpupeak::collector
