#include "collector/summary/diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "collector/summary/site_title.h"
#include "collector/text/lists.h"
#include "collector/text/scope_key.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kPeakSuffix = ".peak_bytes";

/// The scope of a peak's metric: "device.kind.pool.peak_bytes" → "device/pool".
std::string plain_scope(std::string_view metric) {
  if (!metric.ends_with(kPeakSuffix)) return "";
  metric.remove_suffix(kPeakSuffix.size());
  const size_t dot = metric.find('.');
  std::string scope{metric.substr(0, dot)};
  if (dot == std::string_view::npos) return scope;
  std::string_view kind = metric.substr(dot + 1);
  for (const std::string_view prefix : {"kind.", "overlay."}) {
    if (kind.starts_with(prefix)) kind.remove_prefix(prefix.size());
  }
  return scope + "/" + std::string(kind);
}

/// A scope without a peak held nothing, unless it was not measured at all.
std::optional<uint64_t> peak_bytes(const Summary& summary, const std::string& scope) {
  if (const Peak* peak = summary.find_peak(scope)) return peak->bytes;
  if (scope == "total") return std::nullopt;
  if (scope.starts_with("device")) return 0;
  for (const auto& [name, value] : summary.metrics) {
    if (plain_scope(name) == scope) return value ? std::optional<uint64_t>(0) : std::nullopt;
  }
  return std::nullopt;
}

/// A frame without a function is named by its address, which is another one in another build.
std::string without_addresses(std::string_view title) {
  std::string out;
  while (true) {
    const size_t end = std::min(title.find(kArrow), title.size());
    std::string_view frame = title.substr(0, end);
    const size_t offset = frame.rfind("+0x");
    const bool nameless = offset != std::string_view::npos &&
                          frame.find_first_not_of("0123456789abcdef", offset + 3) == frame.npos;
    if (nameless) {
      out += frame.substr(0, offset);
      out += " (no name)";
    } else {
      out += frame.starts_with("0x") ? "(no module)" : frame;
    }
    if (end == title.size()) return out;
    out += kArrow;
    title.remove_prefix(end + kArrow.size());
  }
}

/// What a buffer is for: equal in builds whose addresses and lines differ. Empty: it is not known.
std::string role_key(const Holder& row) {
  if (!row.role) return "";
  const BufferRole& role = *row.role;
  std::set<std::string> uses;
  for (const BufferRole::Kernel& kernel : role.kernels)
    uses.insert(fmt::format("{} {}", kernel.name, fmt::join(kernel.arguments, ",")));
  return fmt::format("{} {} {} {} {} {}\n{}\n", role.copied_in > 0, role.copied_out > 0,
                     role.copied_to > 0, role.copied_from > 0, role.filled > 0, role.textures > 0,
                     fmt::join(uses, "\n"));
}

/// A row of one side or of both, while they are matched.
struct Row {
  SiteDiff site;
  std::vector<SitePart> parts;
  const Holder* holder = nullptr;  ///< the row of a side from which it was made first
  bool one_sided() const { return site.a_bytes == 0 || site.b_bytes == 0; }
  bool of_b() const { return site.b_bytes > 0; }
};
using Rows = std::vector<Row>;

void add(SiteDiff& to, const SiteDiff& from) {
  to.a_bytes += from.a_bytes;
  to.b_bytes += from.b_bytes;
  to.a_count += from.a_count;
  to.b_count += from.b_count;
}

/// Makes one row of rows with equal keys, with the title of the last one.
template <typename Key>
Rows join(const Rows& rows, Key key) {
  std::map<std::string, size_t> places;
  Rows joined;
  for (const Row& row : rows) {
    const auto [place, added] = places.try_emplace(key(row), joined.size());
    if (added) {
      joined.push_back(row);
      continue;
    }
    Row& known = joined[place->second];
    add(known.site, row.site);
    known.site.title = row.site.title;
    known.parts = row.parts;
  }
  return joined;
}

void collect(const Peak* peak, bool of_b, Rows& rows) {
  if (peak == nullptr) return;
  for (const Holder& holder : peak->holders) {
    if (holder.bytes == 0) continue;
    Row& row = rows.emplace_back();
    row.site.title = holder.title;
    row.site.kind = holder.kind;
    row.parts = holder.parts;
    row.holder = &holder;
    (of_b ? row.site.b_bytes : row.site.a_bytes) = holder.bytes;
    (of_b ? row.site.b_count : row.site.a_count) = holder.count;
  }
}

/// Calls without lines are not the same for having the same number: match_calls() finds them.
std::string by_lines(const Row& row) {
  const std::string side = has_calls(row.parts) ? (row.of_b() ? "B\n" : "A\n") : "";
  return side + row.site.kind + '\n' +
         (row.parts.empty() ? row.site.title : site_key(row.parts, SiteKey::kLines));
}

std::string function_title(const Row& row) {
  return without_addresses(row.parts.empty() ? row.site.title
                                             : site_title(without_lines(row.parts)));
}

/// Matches by titles, since a summary of an older gpupeak has nothing else: with the line of the
/// program's own frame, or without.
Rows match_titles(const Rows& rows) {
  std::set<std::string> titles;
  for (const Row& row : rows) {
    if (row.parts.empty() && row.one_sided()) titles.insert(row.site.kind + row.site.title);
  }
  return join(rows, [&](const Row& row) {
    for (const std::string& title : {row.site.title, function_title(row)}) {
      if (row.one_sided() && titles.contains(row.site.kind + title)) return row.site.kind + title;
    }
    return by_lines(row);
  });
}

/// Matches sites whose lines have moved, since the source was edited around them. If both sides
/// have equally many sites of a function, they are matched in the order of their lines. Else nobody
/// knows which is which, and they become one row. Frames without names match by their library,
/// since their addresses are others in another build.
Rows match_functions(Rows rows) {
  std::map<std::string, std::array<std::vector<size_t>, 2>> moved;  // rows of A, rows of B
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].one_sided()) continue;
    const std::string key = rows[i].parts.empty() ? function_title(rows[i])
                                                  : site_key(rows[i].parts, SiteKey::kFunctions);
    moved[rows[i].site.kind + '\n' + key][rows[i].of_b() ? 1 : 0].push_back(i);
  }
  const auto lines_of = [&](size_t row) {
    return list_of(rows[row].parts, [](const SitePart& part) { return part.frame.line; });
  };
  std::vector<std::string> keys(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) keys[i] = std::to_string(i);
  for (auto& [key, sides] : moved) {
    auto& [of_a, of_b] = sides;
    if (of_a.empty() || of_b.empty()) continue;
    const auto is_call = [&](size_t row) { return has_calls(rows[row].parts); };
    if (std::ranges::all_of(of_a, is_call) && std::ranges::all_of(of_b, is_call)) {
      std::array<std::vector<const Holder*>, 2> calls;
      for (const size_t row : of_a) calls[0].push_back(rows[row].holder);
      for (const size_t row : of_b) calls[1].push_back(rows[row].holder);
      for (const auto& [a, b] : match_calls(calls[0], calls[1])) keys[of_b[b]] = keys[of_a[a]];
      continue;
    }
    for (auto* side : {&of_a, &of_b}) std::ranges::stable_sort(*side, {}, lines_of);
    const bool one_each = of_a.size() == of_b.size();
    for (auto* side : {&of_a, &of_b}) {
      for (size_t i = 0; i < side->size(); ++i) {
        Row& row = rows[(*side)[i]];
        keys[(*side)[i]] = key + (one_each ? std::to_string(i) : "");
        if (!one_each) row.parts = without_lines(row.parts);
        const std::string title = without_addresses(row.site.title);
        if (title != row.site.title) row.parts.clear();
        row.site.title = title;
      }
    }
  }
  size_t next = 0;
  return join(rows, [&](const Row&) { return keys[next++]; });
}

/// Equal titles here are of different sites, so they get longer.
void tell_rows_apart(Rows& rows) {
  std::vector<Holder> titles(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    titles[i].title = rows[i].site.title;
    titles[i].kind = rows[i].site.kind;
    titles[i].parts = rows[i].parts;
  }
  tell_apart(titles);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].site.title = titles[i].title;
}

/// Whether the peak has the parts of its sites: a summary of an older gpupeak does not.
bool tells_parts(const Peak* peak) {
  return peak != nullptr &&
         std::ranges::any_of(peak->holders, [](const Holder& row) { return !row.parts.empty(); });
}

uint64_t nameless_bytes(const Peak& peak) {
  return sum_of(peak.holders, [](const Holder& row) { return row.has_no_name() ? row.bytes : 0; });
}

/// A side that lists only its largest sites may have a site that is not listed, of up to the bytes
/// of its smallest row. So a site that is no larger on the other side need not have changed.
uint64_t unlisted_bytes(const Peak* peak) {
  if (peak == nullptr || peak->other_bytes == 0) return 0;
  return peak->holders.empty() ? peak->other_bytes : peak->holders.back().bytes;
}

std::string path_of(const PhaseSummary& phase) {
  return phase.parent ? *phase.parent + "/" + phase.name : phase.name;
}

std::vector<MetricDiff> diff_metrics(const Metrics& a, const Metrics& b) {
  Metrics both = a;
  both.insert(b.begin(), b.end());
  return list_of(keys_of(both), [&](const std::string& name) {
    return MetricDiff{name, metric(a, name), metric(b, name)};
  });
}

/// Phases of the same path are matched in the order in which they began.
std::vector<PhaseDiff> diff_phases(const Summary& a, const Summary& b) {
  std::map<std::string, std::vector<const PhaseSummary*>> of_a;
  for (const PhaseSummary& phase : a.phases) of_a[path_of(phase)].push_back(&phase);
  std::map<std::string, size_t> next;
  std::set<const PhaseSummary*> matched;
  std::vector<PhaseDiff> phases;
  for (const PhaseSummary& phase : b.phases) {
    const std::string path = path_of(phase);
    const std::vector<const PhaseSummary*>& others = of_a[path];
    const size_t number = next[path]++;
    const PhaseSummary* other = number < others.size() ? others[number] : nullptr;
    matched.insert(other);
    phases.push_back({path, other != nullptr, true,
                      diff_metrics(other ? other->metrics : Metrics(), phase.metrics)});
  }
  for (const PhaseSummary& phase : a.phases) {
    if (matched.contains(&phase)) continue;
    phases.push_back({path_of(phase), true, false, diff_metrics(phase.metrics, {})});
  }
  return phases;
}

}  // namespace

bool has_calls(const std::vector<SitePart>& parts) {
  return std::ranges::any_of(parts, [](const SitePart& part) { return part.frame.call > 0; });
}

std::vector<std::pair<size_t, size_t>> match_calls(const std::vector<const Holder*>& a,
                                                   const std::vector<const Holder*>& b) {
  using Side = std::vector<size_t>;
  const std::array<const std::vector<const Holder*>*, 2> rows{&a, &b};
  std::array<Side, 2> left;
  for (size_t side : {0, 1}) {
    for (size_t i = 0; i < rows[side]->size(); ++i) left[side].push_back(i);
    std::ranges::stable_sort(left[side], {}, [&](size_t i) {
      return list_of((*rows[side])[i]->parts, [](const auto& part) { return part.frame.call; });
    });
  }
  std::vector<std::pair<size_t, size_t>> matched;
  // Rows with the same key, in the order of the code: all if both sides have equally many.
  const auto match_by = [&](const auto& key, bool only_if_as_many) {
    std::map<std::string, std::array<Side, 2>> alike;
    for (size_t side : {0, 1}) {
      for (const size_t i : left[side]) alike[key(*(*rows[side])[i])][side].push_back(i);
      left[side].clear();
    }
    for (auto& [text, sides] : alike) {
      const auto& [of_a, of_b] = sides;
      const bool fit = of_a.size() == of_b.size() || !only_if_as_many;
      const size_t count = fit ? std::min(of_a.size(), of_b.size()) : 0;
      for (size_t i = 0; i < count; ++i) matched.emplace_back(of_a[i], of_b[i]);
      for (size_t side : {0, 1}) {
        const auto from = sides[side].begin() + static_cast<std::ptrdiff_t>(count);
        left[side].insert(left[side].end(), from, sides[side].end());
      }
    }
  };
  match_by([](const Holder& row) { return role_key(row); }, true);
  match_by([](const Holder& row) { return role_key(row) + std::to_string(row.bytes); }, false);
  match_by([](const Holder& row) { return std::to_string(row.bytes); }, false);
  return matched;
}

PeakDiff diff_peak(const Summary& a, const Summary& b, const std::string& scope) {
  const Peak* of_a = a.find_peak(scope);
  const Peak* of_b = b.find_peak(scope);
  PeakDiff diff;
  diff.scope = scope;
  diff.a_bytes = peak_bytes(a, scope);
  diff.b_bytes = peak_bytes(b, scope);
  if (of_a != nullptr) diff.a_phase = of_a->phase, diff.a_other_bytes = of_a->other_bytes;
  if (of_b != nullptr) diff.b_phase = of_b->phase, diff.b_other_bytes = of_b->other_bytes;
  if (tells_parts(of_a) && tells_parts(of_b)) {
    diff.a_nameless_bytes = nameless_bytes(*of_a);
    diff.b_nameless_bytes = nameless_bytes(*of_b);
  }
  Rows rows;
  collect(of_a, false, rows);
  collect(of_b, true, rows);
  rows = match_functions(match_titles(join(rows, by_lines)));
  tell_rows_apart(rows);
  const uint64_t in_a = unlisted_bytes(of_a), in_b = unlisted_bytes(of_b);
  for (Row& row : rows) {
    SiteDiff& site = row.site;
    const uint64_t possible_bytes = site.a_bytes == 0 ? in_a : site.b_bytes == 0 ? in_b : 0;
    if (possible_bytes >= site.a_bytes + site.b_bytes) {
      diff.a_other_bytes += site.a_bytes;
      diff.b_other_bytes += site.b_bytes;
      continue;
    }
    site.unlisted = possible_bytes > 0;
    diff.sites.push_back(std::move(site));
  }
  std::ranges::stable_sort(diff.sites, [](const SiteDiff& x, const SiteDiff& y) {
    return std::tuple(y.change(), x.kind, x.title) < std::tuple(x.change(), y.kind, y.title);
  });
  return diff;
}

std::string nameless_text(const PeakDiff& peak) {
  const auto share = [](uint64_t nameless, const std::optional<uint64_t>& whole) {
    return whole.value_or(0) == 0 ? 0.0
                                  : static_cast<double>(nameless) / static_cast<double>(*whole);
  };
  const double a = share(peak.a_nameless_bytes, peak.a_bytes);
  const double b = share(peak.b_nameless_bytes, peak.b_bytes);
  constexpr double kMuch = 0.1;
  if (std::abs(a - b) < kMuch) return "";
  const bool in_a = a > b;
  return fmt::format(
      "{} % of {} has no names, where {} has them: what these sites were is not known, so they are "
      "no change of the program (docs/symbols.md)",
      percent(in_a ? peak.a_nameless_bytes : peak.b_nameless_bytes,
              in_a ? *peak.a_bytes : *peak.b_bytes),
      in_a ? "A" : "B", in_a ? "B" : "A");
}

Diff diff(const Summary& a, const Summary& b) {
  std::set<std::string> scopes;
  for (const Peak& peak : a.peaks) scopes.insert(peak.scope);
  for (const Peak& peak : b.peaks) scopes.insert(peak.scope);
  return {list_of(scopes, [&](const std::string& scope) { return diff_peak(a, b, scope); }),
          diff_metrics(a.metrics, b.metrics), diff_phases(a, b)};
}

std::string scope_of_metric(const Summary& summary, const std::string& metric) {
  if (metric == "host.memory.peak_bytes") return ScopeKey::host().text();
  const std::string scope = plain_scope(metric);
  if (summary.find_peak(scope) != nullptr || !scope.starts_with("device")) return scope;
  const std::string kind = scope.substr(std::string_view("device").size());
  return summary.devices.size() == 1
             ? ScopeKey::device(summary.devices.front().ordinal).text() + kind
             : scope;
}

std::string change_percent(uint64_t a, uint64_t b) {
  if (a == 0) return "";
  const double percent =
      100.0 * (static_cast<double>(b) - static_cast<double>(a)) / static_cast<double>(a);
  if (std::abs(percent) < 0.05) return "0.0 %";
  if (percent >= 100'000) return fmt::format("×{:.0f}", 1 + percent / 100);
  return fmt::format("{:+.{}f} %", percent, percent < 10'000 ? 1 : 0);
}

std::string change_text(const SiteDiff& site, const TextStyle& style) {
  return fmt::format("{}  ({}{}{})  {}  [{}]", change_size(site.a_bytes, site.b_bytes, style),
                     size_text(site.a_bytes, style), kChangeArrow, size_text(site.b_bytes, style),
                     site.title, site.kind);
}

}  // namespace gpupeak::collector
