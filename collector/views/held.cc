#include "collector/views/held.h"

#include <fmt/format.h>

#include "collector/summary/run_text.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

std::string moment_text(const Moment& moment) {
  if (!moment.phase.empty()) return "the highest within " + escape(moment.phase);
  return moment.time_ns ? "what was live at " + instant(*moment.time_ns) : "the peak";
}

}  // namespace

void write_held(Profile& profile, ScopeId scope, const std::vector<Moment>& moments, size_t top,
                std::ostream& out, const TextStyle& style) {
  const std::vector<std::optional<HeldThen>> found = held_then(profile, scope, moments);
  std::vector<HolderTable> tables(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]) tables[i] = profile.sites().table(found[i]->held, top, false);
  }
  write_losses(profile.quality(), out, style);
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0) out << '\n';
    const std::string what = found[i]
                                 ? fmt::format("{}: {} at {}, {}", profile.scope_text(scope),
                                               size_text(found[i]->bytes, style),
                                               instant(found[i]->time_ns), moment_text(moments[i]))
                                 : moment_text(moments[i]) + ": the log has no such moment";
    out << bold("HELD", style) << "  " << cut(what, static_cast<size_t>(style.width) - 6, style)
        << '\n';
    if (found[i] && found[i]->bytes > 0) write_sites(tables[i], found[i]->bytes, out, style);
  }
}

void write_held_json(Profile& profile, ScopeId scope, const std::vector<Moment>& moments,
                     size_t top, std::ostream& out) {
  const std::vector<std::optional<HeldThen>> found = held_then(profile, scope, moments);
  Json list = Json::array();
  for (size_t i = 0; i < found.size(); ++i) {
    Json json;
    json["phase"] = text_or_null(moments[i].phase);
    json["bytes"] = nullptr;
    json["time_ns"] = nullptr;
    json["holders"] = Json::array();
    json["other_bytes"] = json["other_sites"] = 0;
    if (found[i]) {
      const HolderTable table = profile.sites().table(found[i]->held, top, true);
      json["bytes"] = found[i]->bytes;
      json["time_ns"] = found[i]->time_ns;
      json["holders"] = holders_json(table.rows);
      json["other_bytes"] = table.other_bytes;
      json["other_sites"] = table.other_rows;
      json["curve"] = Json::array();
      for (const HeldThen::Point& point : found[i]->curve) {
        json["curve"].push_back({point.time_ns, point.bytes});
      }
    }
    list.push_back(std::move(json));
  }
  Json json = view_json(profile, "gpupeak.held/1");
  json["scope"] = profile.scope_info(scope).name;
  json["moments"] = std::move(list);
  write_line(json, out);
}

}  // namespace gpupeak::collector
