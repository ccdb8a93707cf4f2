#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "collector/analyze/summary_parts.h"
#include "collector/summary/site_title.h"
#include "collector/views/views.h"

namespace gpupeak::collector {
namespace {

/// Makes the rows of a table: holders, added up by the key that the user asked for.
class HolderRows {
 public:
  HolderRows(Profile& profile, GroupBy by)
      : profile_(profile), by_(profile.replay(), profile.titles(), by, &profile.tagger()) {}

  HolderTable table(const Held& held, size_t top, bool with_stacks) {
    Peak peak;
    add_holders(profile_.replay(), profile_.sites(), by_, held.parts, held.takers, top, with_stacks,
                peak);
    return {std::move(peak.holders), peak.other_bytes, peak.other_sites, peak.error_bytes};
  }

  /// Calls visit(Holder) for each part alone, so that its title does not depend on the other rows.
  template <class Visit>
  void visit(const Held& held, const Visit& visit) {
    const bool inside = by_.by() == GroupBy::kSite;
    for (const Contribution& part : inside ? held.parts.outside : held.takers)
      visit(by_.table({part}, 1, false).rows.front());
    if (!inside) return;
    for (const ArenaPart& part : held.parts.in_arenas) {
      Peak peak;
      add_arena_rows(profile_.replay(), profile_.sites(), {part}, 1, peak);
      visit(peak.holders.front());
    }
  }

 private:
  Profile& profile_;
  Attribution by_;
};

struct Move {
  std::string title, kind;
  uint64_t bytes_a = 0, bytes_b = 0, count_a = 0, count_b = 0;

  uint64_t moved() const { return bytes_a < bytes_b ? bytes_b - bytes_a : bytes_a - bytes_b; }
};

/// What happened to a row between two moments.
enum Fate : size_t { kCame, kWent, kGrew, kShrank, kFates };
constexpr std::array<std::pair<const char*, const char*>, kFates> kFateNames{
    {{"came", "CAME"}, {"went", "WENT"}, {"grew", "GREW"}, {"shrank", "SHRANK"}}};

struct Between {
  std::array<std::vector<Move>, kFates> moves;  ///< most bytes first
  uint64_t kept_bytes = 0;  ///< of rows that have the same bytes at both moments
};

Between between(HolderRows& rows, const Held& a, const Held& b) {
  std::map<std::pair<std::string, std::string>, Move> by_row;
  const auto add = [&](const Held& held, uint64_t Move::*bytes, uint64_t Move::*count) {
    rows.visit(held, [&](const Holder& holder) {
      Move& move = by_row[{holder.title, holder.kind}];
      move.title = holder.title;
      move.kind = holder.kind;
      move.*bytes += holder.bytes;
      move.*count += holder.count;
    });
  };
  add(a, &Move::bytes_a, &Move::count_a);
  add(b, &Move::bytes_b, &Move::count_b);
  Between result;
  for (auto& [key, move] : by_row) {
    if (move.bytes_a == move.bytes_b) {
      result.kept_bytes += move.bytes_a;
      continue;
    }
    const Fate fate = move.bytes_a == 0             ? kCame
                      : move.bytes_b == 0           ? kWent
                      : move.bytes_b > move.bytes_a ? kGrew
                                                    : kShrank;
    result.moves[fate].push_back(std::move(move));
  }
  for (std::vector<Move>& moves : result.moves)
    std::ranges::stable_sort(moves, std::greater(), &Move::moved);
  return result;
}

uint64_t moved(const std::vector<Move>& moves) {
  return sum_of(moves, &Move::moved);
}

std::string moment_text(const Held& held) {
  return fmt::format("{}, {}", instant(held.time_ns), held.is_peak() ? "the peak" : held.moment);
}

void add_moves(const std::vector<Move>& moves, Fate fate, size_t top, TextLines& text) {
  if (moves.empty()) return;
  const bool less = fate == kWent || fate == kShrank;
  const auto change = [&](uint64_t bytes) { return (less ? "-" : "+") + text.size(bytes); };
  const TextTable table(text, {{"change", size_columns(text.style()) + 1}});
  text.add("\n{}  {} at {} {}", bold(kFateNames[fate].second, text.style()), change(moved(moves)),
           grouped(moves.size()), moves.size() == 1 ? "site" : "sites");
  const TopRows rows(moves, top, 0, &Move::moved);
  for (const Move& move : rows.shown) {
    std::string mark = kind_mark(move.kind);
    if (fate == kGrew || fate == kShrank)
      mark += fmt::format("  {} to {}", text.size(move.bytes_a), text.size(move.bytes_b));
    table.row({change(move.moved())}, move.title, mark);
  }
  table.more(rows.others, {change(rows.other_bytes)});
}

Json moves_json(const std::vector<Move>& moves) {
  return array_of(moves, "title, kind, a_bytes, b_bytes, a_count, b_count", &Move::title,
                  &Move::kind, &Move::bytes_a, &Move::bytes_b, &Move::count_a, &Move::count_b);
}

Json moment_json(const Held& held) {
  return object("moment, time_ns, bytes", held.is_peak() ? "peak" : held.moment, held.time_ns,
                held.bytes);
}

Json live_json(const Profile& profile, const std::vector<Held>& held,
               const std::vector<HolderTable>& tables, const std::vector<Ages>& ages) {
  Json list = Json::array();
  for (size_t i = 0; i < held.size(); ++i) {
    Json json = object("scope", profile.scope_info(held[i].scope).name);
    json.update(moment_json(held[i]));
    extend(json, "holders, other_bytes, other_sites", tables[i].rows, tables[i].other_bytes,
           tables[i].other_rows);
    json["ages"] = ages_json(ages[i]);
    list.push_back(std::move(json));
  }
  return with(view_json(profile, "gpupeak.live/1"), "scopes", std::move(list));
}

void add_ages(const Ages& ages, uint64_t whole, TextLines& text) {
  text.add("\n{}", bold("BY AGE", text.style()));
  text.parts().head("allocated");
  for (const Ages::Row& row : ages.rows)
    text.part(row.bytes, whole, grouped(row.blocks),
              fmt::format("{}: {} by {}", row.text, text.size(row.site_bytes), row.site));
  if (ages.other_bytes > 0)
    text.part(ages.other_bytes, whole, "", "not known: mappings, idle in pools");
  for (const Ages::Odd& one : ages.odd)
    text.wrap("odd: {} in {} by {}, {} old; {} others of this call lived {} at most",
              text.size(one.bytes), one.blocks == 1 ? "1 block" : grouped(one.blocks) + " blocks",
              one.site, duration(one.oldest_ns), grouped(one.freed), duration(one.longest_ns));
}

Json between_json(const Profile& profile, const std::vector<Held>& a, const std::vector<Held>& b,
                  const std::vector<Between>& all) {
  Json list = Json::array();
  for (size_t i = 0; i < a.size(); ++i) {
    Json json = object("scope, a, b", profile.scope_info(a[i].scope).name, moment_json(a[i]),
                       moment_json(b[i]));
    for (size_t fate = 0; fate < kFates; ++fate)
      json[kFateNames[fate].first] = moves_json(all[i].moves[fate]);
    json["kept_bytes"] = all[i].kept_bytes;
    list.push_back(std::move(json));
  }
  return with(view_json(profile, "gpupeak.between/1"), "scopes", std::move(list));
}

}  // namespace

void write_live(Profile& profile, const std::vector<Held>& held, GroupBy by, size_t top,
                std::ostream& out, const ViewStyle& style) {
  HolderRows rows(profile, by);
  const std::vector<HolderTable> tables =
      list_of(held, [&](const Held& sum) { return rows.table(sum, top, style.is_json()); });
  const std::vector<Ages> ages = ages_of(profile, held);
  if (style.is_json()) return write_line(live_json(profile, held, tables, ages), out);
  TextLines text = view_text(profile, style);
  for (size_t i = 0; i < held.size(); ++i) {
    if (i > 0) text.add("");
    add_heading(profile, held[i], text);
    if (held[i].bytes == 0) continue;
    add_sites(tables[i], held[i].bytes, text);
    add_ages(ages[i], held[i].bytes, text);
  }
  text.write(out);
}

void write_between(Profile& profile, const std::vector<Held>& a, const std::vector<Held>& b,
                   GroupBy by, size_t top, std::ostream& out, const ViewStyle& style) {
  HolderRows rows(profile, by);
  std::vector<Between> all;
  for (size_t i = 0; i < a.size(); ++i) all.push_back(between(rows, a[i], b[i]));
  if (style.is_json()) return write_line(between_json(profile, a, b, all), out);
  TextLines text = view_text(profile, style);
  for (size_t i = 0; i < a.size(); ++i) {
    if (i > 0) text.add("");
    const bool less = b[i].bytes < a[i].bytes;
    text.wrap_behind("BETWEEN", "{}: {} at {}; {} at {}; {}{}", profile.scope_text(a[i].scope),
                     text.size(a[i].bytes), moment_text(a[i]), text.size(b[i].bytes),
                     moment_text(b[i]), less ? "-" : "+",
                     text.size(less ? a[i].bytes - b[i].bytes : b[i].bytes - a[i].bytes));
    for (size_t fate = 0; fate < kFates; ++fate)
      add_moves(all[i].moves[fate], static_cast<Fate>(fate), top, text);
  }
  text.write(out);
}

}  // namespace gpupeak::collector
