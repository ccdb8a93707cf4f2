#include "collector/write/json_values.h"

#include <fmt/format.h>

#include "collector/summary/run_text.h"

namespace gpupeak::collector {

Json frame_json(const Frame& frame) {
  Json json;
  json["address"] = fmt::format("{:#x}", frame.address);
  json["module"] = text_or_null(frame.module);
  if (!frame.module.empty() && !frame.is_python)
    json["offset"] = fmt::format("{:#x}", frame.offset);
  json["function"] = text_or_null(frame.function);
  json["file"] = text_or_null(frame.file);
  json["line"] = frame.line > 0 ? Json(frame.line) : Json(nullptr);
  if (frame.name_source != NameSource::kNone) {
    json["name_source"] = name_source_text(frame.name_source);
  }
  if (frame.is_python) json["language"] = "python";
  return json;
}

Json parts_json(const std::vector<SitePart>& parts) {
  Json json = Json::array();
  for (const SitePart& part : parts) {
    Json one = frame_json(part.frame);
    one.erase("address");
    if (part.of_library) one.erase("offset");
    if (part.run > 0) one["frames"] = part.run;
    json.push_back(std::move(one));
  }
  return json;
}

Json holder_json(const Holder& holder) {
  Json json;
  json["kind"] = holder.kind;
  json["bytes"] = holder.bytes;
  json["count"] = holder.count;
  json["site"] = holder.title;
  if (!holder.parts.empty()) json["parts"] = parts_json(holder.parts);
  if (!holder.api.empty()) json["api"] = holder.api;
  json["module"] = text_or_null(holder.module);
  json["phase"] = nullable(holder.phase);
  json["thread"] = nullable(holder.thread_id);
  json["temporary"] = holder.temporary;
  if (holder.error_bytes) json["error_bytes"] = *holder.error_bytes;
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

Json exit_json(const RunEnd& end) {
  const bool known = end.kind != ExitKind::kUnknown;
  const char* kind = end.kind == ExitKind::kSignal ? "signal" : "exit";
  Json json{{"kind", known ? kind : "unknown"}, {"code", known ? Json(end.code) : Json(nullptr)}};
  if (end.kind == ExitKind::kSignal) json["signal"] = signal_name(end.code);
  return json;
}

Json quality_json(const Quality& quality) {
  Json json;
  json["exact"] = quality.exact;
  json["events_lost"] = quality.events_lost;
  json["log_complete"] = quality.log_complete;
  constexpr const char* kEnds[] = {"in_order", "killed", "running", "unknown"};
  json["log_end"] = kEnds[static_cast<size_t>(quality.log_end)];
  if (quality.heap_sample_bytes > 0) json["heap_sample_bytes"] = quality.heap_sample_bytes;
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
    json["warnings"].push_back({{"code", code_text(warning.code)}, {"message", warning.message}});
  }
  return json;
}

}  // namespace gpupeak::collector
