#include "collector/views/last_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "collector/analyze/arena_summary.h"
#include "collector/text/title_text.h"
#include "collector/views/use_words.h"

namespace gpupeak::collector {
namespace {

/// Rows of a site and a use, as its holders are called.
struct UseRow {
  UseAtPeak use{};
  std::string title, kind;
  uint64_t bytes = 0, blocks = 0;
  int64_t shortest_ns = 0, longest_ns = 0;
};

Holder holder_of(Profile& profile, const LastUse::Row& row) {
  if (row.group != kNoGroup)
    return profile.sites().holder({row.group, row.bytes, row.blocks}, false);
  Peak peak;
  const ArenaTable::Holder& holder = profile.replay().arenas().holder(row.holder);
  add_arena_rows(profile.replay(), profile.sites(), {{&holder, row.bytes, row.blocks}}, 1, peak);
  return peak.holders.front();
}

/// Largest first.
std::vector<UseRow> rows_of(Profile& profile, const LastUse& of) {
  std::map<std::tuple<UseAtPeak, std::string, std::string>, UseRow> by_title;
  for (const LastUse::Row& part : of.rows) {
    const Holder holder = holder_of(profile, part);
    const auto [entry, is_new] = by_title.try_emplace({part.use, holder.title, holder.kind});
    UseRow& row = entry->second;
    row.use = part.use;
    row.title = holder.title;
    row.kind = holder.kind;
    row.bytes += part.bytes;
    row.blocks += part.blocks;
    row.shortest_ns = is_new ? part.shortest_ns : std::min(row.shortest_ns, part.shortest_ns);
    row.longest_ns = std::max(row.longest_ns, part.longest_ns);
  }
  std::vector<UseRow> rows;
  rows.reserve(by_title.size());
  for (auto& [key, row] : by_title) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const UseRow& a, const UseRow& b) { return a.bytes > b.bytes; });
  return rows;
}

uint64_t sum_of(const LastUse& of, UseAtPeak use) {
  uint64_t bytes = 0;
  for (const LastUse::Row& row : of.rows) bytes += row.use == use ? row.bytes : 0;
  return bytes;
}

void write_notes(const LastUses& uses, std::ostream& out, const TextStyle& style) {
  const auto note = [&](const std::string& text) { write_wrapped(text, out, style); };
  note(
      "A use is an address of the block in the arguments of a launch, a copy or a fill, when that "
      "was given to the device. What a kernel reads from memory, such as lists of pointers, is "
      "not seen.");
  if (!uses.end)
    return note("The process did not come to its end: of what was live then no use is known.");
  if (uses.end->unread > 0)
    note(fmt::format("The parameters of {} launches could not be read: \"not seen\" may be wrong.",
                     grouped(uses.end->unread)));
  if (uses.end->left_out > 0)
    note(fmt::format("{} blocks were not followed.", grouped(uses.end->left_out)));
}

}  // namespace

void write_last_use(Profile& profile, const LastUses& uses, size_t top, std::ostream& out,
                    const TextStyle& style) {
  write_losses(profile.quality(), out, style);
  const auto width = static_cast<size_t>(style.width);
  for (const LastUse& of : uses.devices) {
    const std::vector<UseRow> rows = rows_of(profile, of);
    out << bold("LAST USE", style) << "  ";
    write_wrapped(fmt::format("{}: {} at {}", profile.scope_text(of.scope),
                              size_text(of.bytes, style), instant(of.time_ns)),
                  out, style);
    const auto figures = [&](uint64_t bytes) {
      return fmt::format("{} {}", right(size_text(bytes, style), size_columns(style)),
                         right(percent(bytes, of.bytes), 5));
    };
    for (const UseName& use : kUses) {
      if (const uint64_t bytes = sum_of(of, use.use); bytes > 0)
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
  write_notes(uses, out, style);
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
    for (const UseName& use : kUses) device["bytes"][std::string(use.name)] = sum_of(of, use.use);
    device["bytes"]["idle_in_pools"] = of.idle_bytes;
    device["rows"] = Json::array();
    uint64_t other_bytes = 0, other_rows = 0;
    for (const UseRow& row : rows_of(profile, of)) {
      if (device["rows"].size() == top) {
        other_bytes += row.bytes;
        ++other_rows;
        continue;
      }
      const bool is_timed = has_time(row.use);
      device["rows"].push_back({{"use", name_of(row.use)},
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
