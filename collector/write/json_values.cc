#include "collector/write/json_values.h"

#include <fmt/format.h>

#include "collector/summary/summary_json.h"
#include "collector/text/sanitize.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {

Json JsonFields::json_of(const Frame& frame) {
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

Json JsonFields::json_of(const std::vector<SitePart>& parts) {
  Json json = Json::array();
  for (const SitePart& part : parts) {
    Json one = json_of(part.frame);
    one.erase("address");
    if (part.of_library) one.erase("offset");
    if (part.run > 0) one["frames"] = part.run;
    json.push_back(std::move(one));
  }
  return json;
}

Json JsonFields::json_of(const RunEnd& end) {
  const bool known = end.kind != ExitKind::kUnknown;
  const char* kind = end.kind == ExitKind::kSignal ? "signal" : "exit";
  Json json = object("kind, code", known ? kind : "unknown", json_if(known, end.code));
  if (end.kind == ExitKind::kSignal) json["signal"] = signal_name(end.code);
  return json;
}

Json JsonFields::json_of(LogEnd end) {
  constexpr std::string_view kEnds[] = {"in_order", "killed", "running", "unknown"};
  return kEnds[static_cast<size_t>(end)];
}

void write_line(const Json& json, std::ostream& out) {
  out << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json summary_json(const Summary& summary) {
  JsonFields fields;
  fields("schema", "gpupeak.summary/1");
  json_fields(fields, summary);
  return fields.take();
}

void write_json(const Summary& summary, std::ostream& out) {
  write_line(summary_json(summary), out);
}

void write_csv(const Summary& summary, std::ostream& out) {
  out << "scope,bytes,percent,count,kind,api,module,phase,thread,site\r\n";
  for (const Peak& peak : summary.peaks) {
    for (const Holder& holder : peak.holders) {
      out << fmt::format(
          "{},{},{},{},{},{},{},{},{},{}\r\n", peak.scope, holder.bytes,
          percent(holder.bytes, peak.bytes), holder.count, holder.kind, csv_field(holder.api),
          csv_field(holder.module), csv_field(holder.phase.value_or("")),
          holder.thread_id ? fmt::format("{}", *holder.thread_id) : "", csv_field(holder.title));
    }
    if (peak.other_bytes == 0) continue;
    out << fmt::format("{},{},{},,,,,,,({} more)\r\n", peak.scope, peak.other_bytes,
                       percent(peak.other_bytes, peak.bytes), peak.other_sites);
  }
}

GPUPEAK_FIELDS(Ages::Row, text, bytes, blocks, oldest_ns, site, site_bytes)
GPUPEAK_FIELDS(Ages::Odd, site, bytes, blocks, oldest_ns, freed, longest_ns)

Json ages_json(const Ages& ages) {
  return object("step, rows, other_bytes, odd", text_or_null(ages.step), ages.rows,
                ages.other_bytes, ages.odd);
}

}  // namespace gpupeak::collector
