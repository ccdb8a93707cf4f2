// What the views begin with: losses, what is shown, and its rows by call site.

#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/views/views.h"

namespace gpupeak::collector {

TextLines view_text(const Profile& profile, const TextStyle& style) {
  TextLines text(style);
  const Quality quality = profile.quality();
  const bool fine = quality.exact && quality.log_complete;
  if (!fine) text.add(alarm(losses_text(quality), style));
  for (const Warning& warning : quality.warnings)
    text.wrap("  {}  {}", code_text(warning.code), warning.message);
  if (!text.empty()) text.add("");
  return text;
}

void add_heading(const Profile& profile, const Held& held, TextLines& text) {
  const std::string more =
      held.is_peak() ? (held.phase ? ", phase " + *held.phase : "") : ", " + held.moment;
  text.heading(held.is_peak() ? "PEAK" : "LIVE", "{}: {} at {}{}", profile.scope_text(held.scope),
               text.size(held.bytes), instant(held.time_ns), more);
}

void add_sites(const HolderTable& table, uint64_t whole, TextLines& text) {
  const TextTable parts = text.parts();
  parts.head("site");
  for (const Holder& holder : table.rows)
    text.part(holder.bytes, whole, count_text(holder), holder.title, kind_mark(holder.kind),
              holder.telling_part);
  parts.more(table.other_rows, text.of_whole(table.other_bytes, whole, ""));
}

Json view_json(const Profile& profile, std::string_view schema) {
  return object("schema, log, quality", schema, profile.definitions().shown(profile.path()),
                profile.quality());
}

Json view_json(const Profile& profile, std::string_view schema, const Held& held) {
  Json json = view_json(profile, schema);
  json["scope"] = profile.scope_info(held.scope).name;
  if (!held.is_peak()) json["moment"] = held.moment;
  extend(json, "bytes, time_ns, phase", held.bytes, held.time_ns, held.phase);
  return json;
}

}  // namespace gpupeak::collector
