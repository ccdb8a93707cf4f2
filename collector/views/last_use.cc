#include "collector/views/last_use.h"

#include <fmt/format.h>

#include <string>

#include "collector/text/title_text.h"
#include "collector/write/use_words.h"

namespace gpupeak::collector {

void write_last_use(Profile& profile, const LastUses& uses, size_t top, std::ostream& out,
                    const TextStyle& style) {
  write_losses(profile.quality(), out, style);
  const auto width = static_cast<size_t>(style.width);
  for (const LastUse& of : uses.devices) {
    const std::vector<UseRow> rows = use_rows(profile, of);
    out << bold("LAST USE", style) << "  ";
    write_wrapped(fmt::format("{}: {} at {}", profile.scope_text(of.scope),
                              size_text(of.bytes, style), instant(of.time_ns)),
                  out, style);
    const auto figures = [&](uint64_t bytes) {
      return fmt::format("{} {}", right(size_text(bytes, style), size_columns(style)),
                         right(percent(bytes, of.bytes), 5));
    };
    for (const UseName& use : kUses) {
      if (const uint64_t bytes = bytes_of(of, use.use); bytes > 0)
        out << figures(bytes) << "  " << use.text << '\n';
    }
    if (of.idle_bytes > 0) out << figures(of.idle_bytes) << "  idle in pools\n";
    size_t shown = 0;
    uint64_t other_bytes = 0, other_rows = 0;
    for (const UseRow& row : rows) {
      if (!may_be_moved(row.use)) continue;
      if (shown == top) {
        other_bytes += row.bytes;
        ++other_rows;
        continue;
      }
      constexpr size_t kWhenColumns = 30;
      if (shown++ == 0)
        out << '\n'
            << fmt::format("{} {} {}  {}  site\n", right("size", size_columns(style)),
                           right("%", 5), right("blocks", kRowCountColumns),
                           left("used", kWhenColumns));
      const std::string head = fmt::format(
          "{} {}  {}  ", figures(row.bytes), right(grouped(row.blocks), kRowCountColumns),
          left(when_used(row.use, row.shortest_ns, row.longest_ns), kWhenColumns));
      const size_t used = display_width(head);
      out << head << cut_title(row.title, width > used ? width - used : 0, style) << '\n';
    }
    if (other_rows > 0)
      out << fmt::format("{} {}  {} more\n", figures(other_bytes), right("", kRowCountColumns),
                         grouped(other_rows));
    out << '\n';
  }
  for (const std::string& note : use_notes(uses)) write_wrapped(note, out, style);
}

void write_last_use_json(Profile& profile, const LastUses& uses, size_t top, std::ostream& out) {
  Json json = view_json(profile, "gpupeak.last_use/1");
  json["complete"] = uses.end.has_value();
  json["blocks_left_out"] = uses.end ? Json(uses.end->left_out) : Json();
  json["launches_unread"] = uses.end ? Json(uses.end->unread) : Json();
  json["devices"] = Json::array();
  for (const LastUse& of : uses.devices) {
    Json device{{"scope", profile.scope_info(of.scope).name},
                {"peak_bytes", of.bytes},
                {"time_ns", of.time_ns}};
    for (const UseName& use : kUses) device["bytes"][std::string(use.name)] = bytes_of(of, use.use);
    device["bytes"]["idle_in_pools"] = of.idle_bytes;
    device["rows"] = Json::array();
    uint64_t other_bytes = 0, other_rows = 0;
    for (const UseRow& row : use_rows(profile, of)) {
      if (device["rows"].size() == top) {
        other_bytes += row.bytes;
        ++other_rows;
        continue;
      }
      const bool is_timed = has_time(row.use);
      device["rows"].push_back({{"use", use_name(row.use).name},
                                {"title", row.title},
                                {"kind", row.kind},
                                {"bytes", row.bytes},
                                {"blocks", row.blocks},
                                {"shortest_ns", is_timed ? Json(row.shortest_ns) : Json()},
                                {"longest_ns", is_timed ? Json(row.longest_ns) : Json()}});
    }
    device["other_bytes"] = other_bytes;
    device["other_rows"] = other_rows;
    json["devices"].push_back(std::move(device));
  }
  write_line(json, out);
}

}  // namespace gpupeak::collector
