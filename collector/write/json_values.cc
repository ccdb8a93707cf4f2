#include "collector/write/json_values.h"

#include <fmt/format.h>

#include "collector/summary/run_text.h"

namespace gpupeak::collector {

Json frame_json(const Frame& frame) {
  Json json =
      object("address, module", fmt::format("{:#x}", frame.address), text_or_null(frame.module));
  if (!frame.module.empty() && !frame.is_python)
    json["offset"] = fmt::format("{:#x}", frame.offset);
  extend(json, "function, file, line", text_or_null(frame.function), text_or_null(frame.file),
         json_if(frame.line > 0, frame.line));
  if (frame.call > 0) json[frame.one_block ? "buffer" : "call"] = frame.call;
  if (frame.name_source != NameSource::kNone)
    json["name_source"] = name_source_text(frame.name_source);
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

Json exit_json(const RunEnd& end) {
  const bool known = end.kind != ExitKind::kUnknown;
  const char* kind = end.kind == ExitKind::kSignal ? "signal" : "exit";
  Json json = object("kind, code", known ? kind : "unknown", json_if(known, end.code));
  if (end.kind == ExitKind::kSignal) json["signal"] = signal_name(end.code);
  return json;
}

}  // namespace gpupeak::collector
