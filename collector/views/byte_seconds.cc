#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "collector/analyze/analyze.h"
#include "collector/analyze/summary_parts.h"
#include "collector/summary/site_title.h"
#include "collector/text/sanitize.h"
#include "collector/views/views.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kNsOfSecond = 1'000'000'000;

struct TimeRow {
  std::string title, kind;
  ByteTime time = 0;
  uint64_t allocations = 0;
};

struct TimeTable {
  std::vector<TimeRow> rows;  ///< largest first
  ByteTime other_time = 0;
  size_t other_rows = 0;
};

/// In bytes × seconds.
double byte_seconds(ByteTime time) {
  return static_cast<double>(time) / static_cast<double>(kNsOfSecond);
}
std::string byte_time_text(ByteTime time, const TextStyle& style) {
  return size_text(static_cast<uint64_t>(time / kNsOfSecond), style) + "·s";
}
std::string time_share(ByteTime part, ByteTime whole) {
  for (; whole > UINT64_MAX; whole /= 2) part /= 2;
  return percent(static_cast<uint64_t>(part), static_cast<uint64_t>(whole));
}

class TimeRows {
 public:
  TimeRows(Profile& profile, GroupBy by)
      : profile_(profile), by_(profile.replay(), profile.titles(), by, &profile.tagger()) {}

  TimeTable table(const HeldTime& held, size_t top) {
    const bool inside = by_.by() == GroupBy::kSite;
    std::vector<TimeRow> rows = rows_of(inside ? held.outside : held.takers);
    if (inside) add_arena_rows_of(held.in_arenas, rows);
    std::ranges::stable_sort(rows, std::greater(), &TimeRow::time);
    TimeTable table{std::move(rows), 0, 0};
    for (; table.rows.size() > top; table.rows.pop_back()) {
      table.other_time += table.rows.back().time;
      ++table.other_rows;
    }
    return table;
  }

 private:
  std::vector<TimeRow> rows_of(const std::vector<HeldTime::Taker>& takers) {
    std::map<uint32_t, TimeRow> by_number;
    std::map<uint32_t, GroupId> first;
    for (const HeldTime::Taker& taker : takers) {
      const uint32_t number = by_.row_of(taker.group);
      TimeRow& row = by_number[number];
      row.time += taker.time;
      row.allocations += profile_.replay().peaks().group(taker.group).alloc_count;
      first.emplace(number, taker.group);
    }
    // All in one table, so that titles that begin alike are told apart.
    std::vector<Contribution> each;
    each.reserve(first.size());
    for (const auto& [number, group] : first) each.push_back({group, each.size() + 1, 1});
    std::vector<Holder> named = by_.table(each, kAllRows, false).rows;
    std::vector<TimeRow> rows(each.size());
    size_t place = 0;
    for (auto& [number, row] : by_number) rows[place++] = std::move(row);
    for (Holder& holder : named) {
      TimeRow& row = rows[holder.bytes - 1];
      row.title = std::move(holder.title);
      row.kind = std::move(holder.kind);
    }
    return rows;
  }

  void add_arena_rows_of(const std::vector<HeldTime::InArena>& parts, std::vector<TimeRow>& rows) {
    const ArenaTable& table = profile_.replay().arenas();
    std::map<std::pair<std::string, std::string>, TimeRow> by_title;
    for (const HeldTime::InArena& part : parts) {
      Peak peak;
      add_arena_rows(profile_.replay(), profile_.sites(), {{&table.holder(part.holder), 1, 1}}, 1,
                     peak);
      const Holder& named = peak.holders.front();
      TimeRow& row = by_title[{named.title, named.kind}];
      row.title = named.title;
      row.kind = named.kind;
      row.time += part.time;
      row.allocations += table.peaks().group(as_group(part.holder)).alloc_count;
    }
    for (auto& [title, row] : by_title) rows.push_back(std::move(row));
  }

  Profile& profile_;
  Attribution by_;
};

/// Why the log does not tell the byte-seconds of the scope; empty: it does.
std::string_view why_no_time(const Profile& profile, const Quality& quality, ScopeId scope) {
  if (quality.events_lost) return "events were lost";
  if (profile.scope_info(scope).device < 0 && quality.heap_sample_bytes > 0)
    return "the log has a sample of the heap";
  return "";
}

Json byte_seconds_json(const Profile& profile, const std::vector<HeldTime>& held,
                       const std::vector<TimeTable>& tables, GroupBy by) {
  Json list = Json::array();
  for (size_t i = 0; i < held.size(); ++i) {
    const HeldTime& sum = held[i];
    const TimeTable& table = tables[i];
    const bool known = why_no_time(profile, profile.quality(), sum.scope).empty();
    Json rows = array_of(table.rows, [&](const TimeRow& row) {
      return object("title, kind, byte_seconds, alloc_count", row.title, row.kind,
                    json_if(known, byte_seconds(row.time)), row.allocations);
    });
    list.push_back(object("scope, byte_seconds, rows, other_byte_seconds, other_rows",
                          profile.scope_info(sum.scope).name,
                          json_if(known, byte_seconds(sum.time)), std::move(rows),
                          json_if(known, byte_seconds(table.other_time)), table.other_rows));
  }
  return with(view_json(profile, "gpupeak.byte_seconds/1"), "duration_ns, grouped_by, scopes",
              duration_ns(profile.log(), profile.replay()), group_by_name(by), std::move(list));
}

void write_csv(const Profile& profile, const std::vector<HeldTime>& held,
               const std::vector<TimeTable>& tables, GroupBy by, std::ostream& out) {
  out << "scope,byte_seconds,percent,allocations,kind," << group_by_name(by) << "\r\n";
  for (size_t i = 0; i < held.size(); ++i) {
    const HeldTime& sum = held[i];
    const TimeTable& table = tables[i];
    const std::string scope = profile.scope_info(sum.scope).name;
    const bool known = why_no_time(profile, profile.quality(), sum.scope).empty();
    const auto figures = [&](ByteTime time) {
      return known ? fmt::format("{:.9f},{}", byte_seconds(time), time_share(time, sum.time))
                   : std::string(",");
    };
    for (const TimeRow& row : table.rows)
      out << fmt::format("{},{},{},{},{}\r\n", scope, figures(row.time), row.allocations, row.kind,
                         csv_field(row.title));
    if (table.other_rows > 0)
      out << fmt::format("{},{},,,({} more)\r\n", scope, figures(table.other_time),
                         table.other_rows);
  }
}

}  // namespace

void write_byte_seconds(Profile& profile, const std::vector<HeldTime>& held, GroupBy by, size_t top,
                        std::ostream& out, const ViewStyle& style) {
  TimeRows maker(profile, by);
  const std::vector<TimeTable> tables =
      list_of(held, [&](const HeldTime& sum) { return maker.table(sum, top); });
  if (style.is_json()) return write_line(byte_seconds_json(profile, held, tables, by), out);
  if (style.is_csv()) return write_csv(profile, held, tables, by, out);
  const Quality quality = profile.quality();
  TextLines text = view_text(profile, style);
  const int64_t length_ns = duration_ns(profile.log(), profile.replay());
  for (size_t i = 0; i < held.size(); ++i) {
    if (i > 0) text.add("");
    const std::string where = profile.scope_text(held[i].scope);
    if (const auto why = why_no_time(profile, quality, held[i].scope); !why.empty()) {
      text.add("{}  {}: not known, {}", bold("BYTE-SECONDS", style), where, why);
      continue;
    }
    const auto average = length_ns > 0 ? static_cast<uint64_t>(held[i].time / length_ns) : 0;
    text.wrap_behind("BYTE-SECONDS", "{}: {} until {}, {} on average", where,
                     byte_time_text(held[i].time, style), instant(length_ns), text.size(average));
    const TextTable table(
        text, {{"size·s", size_columns(style) + 2}, {"%", 5}, {"allocs", kRowCountColumns}});
    const auto cells = [&](ByteTime time, const std::string& count) -> TextTable::Cells {
      return {byte_time_text(time, style), time_share(time, held[i].time), count};
    };
    table.head(group_by_name(by));
    for (const TimeRow& of : tables[i].rows)
      table.row(cells(of.time, grouped(of.allocations)), of.title, kind_mark(of.kind));
    table.more(tables[i].other_rows, cells(tables[i].other_time, ""));
  }
  text.write(out);
}

}  // namespace gpupeak::collector
