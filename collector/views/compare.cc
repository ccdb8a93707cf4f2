#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "collector/analyze/summary_parts.h"
#include "collector/summary/diff.h"
#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/title_text.h"
#include "collector/views/views.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kNarrowestTitle = 20;
constexpr size_t kPercentColumns = 9;
/// Stands before a lower bound.
constexpr std::string_view kAtLeast = "≥ ";

/// One figure for each run; none: the run does not have it.
struct Row {
  std::string title;
  std::string kind;  ///< of memory; only for rows of sites
  std::vector<std::optional<uint64_t>> values;
  uint64_t largest() const {
    return most_of(values, [](const auto& value) { return value.value_or(0); });
  }
};

struct Comparison {
  std::string scope;  ///< whose phases and sites are compared
  std::vector<Row> peaks, phases, sites;
  uint64_t more_sites = 0;
};

std::optional<ScopeId> find_scope(const Profile& run, const std::string& name) {
  for (const ScopeId id : run.scopes()) {
    if (run.scope_info(id).name == name) return id;
  }
  return std::nullopt;
}

class Rows {
 public:
  explicit Rows(size_t runs) : runs_(runs) {}
  /// If a run has several values for one row: their sum if `add`, else the largest.
  void put(const std::string& title, const std::string& kind, size_t run, uint64_t value,
           bool add) {
    const auto [known, added] = index_.try_emplace({title, kind}, rows_.size());
    if (added) rows_.push_back({title, kind, std::vector<std::optional<uint64_t>>(runs_)});
    std::optional<uint64_t>& cell = rows_[known->second].values[run];
    const uint64_t before = cell.value_or(0);
    cell = add ? before + value : std::max(before, value);
  }
  std::vector<Row> take() { return std::move(rows_); }

 private:
  size_t runs_;
  std::vector<Row> rows_;
  std::map<std::pair<std::string, std::string>, size_t> index_;
};

std::vector<Row> compare_peaks(const Profiles& runs) {
  Rows rows(runs.size());
  const bool devices = std::ranges::any_of(
      runs, [](const auto& run) { return find_scope(*run, "device").has_value(); });
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const ScopeId id : runs[i]->scopes()) {
      // Without devices the total is the host's sum.
      if (runs[i]->scope_info(id).name == "total" && !devices) continue;
      rows.put(runs[i]->scope_info(id).name, "", i, runs[i]->sum(id).peak, false);
    }
  }
  std::vector<Row> all = rows.take();
  std::ranges::sort(all, {}, &Row::title);
  return all;
}

std::vector<Row> compare_phases(const Profiles& runs, bool device_side) {
  Rows rows(runs.size());
  const PhaseSide side = device_side ? kDeviceSide : kHostSide;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<Phase>& phases = runs[i]->replay().phases().phases();
    for (PhaseId id = 1; id < phases.size(); ++id)
      rows.put(std::as_const(*runs[i]).sites().phase_name(id).value_or(""), "", i,
               phases[id].peak_bytes[side], false);
  }
  return rows.take();
}

Comparison compare(const Profiles& runs, const std::string& scope, size_t top) {
  Comparison result;
  result.scope = scope.empty() ? runs.front()->scope_info(runs.front()->scope("")).name : scope;
  const bool is_known = std::ranges::any_of(
      runs, [&](const auto& run) { return find_scope(*run, result.scope).has_value(); });
  if (!is_known && !scope.empty())
    throw UsageError("none of the runs has memory of scope '{}'", escape(scope));
  result.peaks = compare_peaks(runs);
  result.phases = compare_phases(runs, result.scope.starts_with("device"));
  Rows sites(runs.size());
  std::map<std::string, std::vector<Holder>> known_calls;  // of earlier runs, by function
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::optional<ScopeId> id = find_scope(*runs[i], result.scope);
    if (!id) continue;
    const HolderTable table = runs[i]->sites().table(runs[i]->at_peak(*id), SIZE_MAX, false);
    std::map<std::string, std::vector<const Holder*>> calls;
    for (const Holder& row : table.rows) {
      if (has_calls(row.parts))
        calls[row.kind + '\n' + site_key(row.parts, SiteKey::kFunctions)].push_back(&row);
      else
        sites.put(row.title, row.kind, i, row.bytes, true);
    }
    for (const auto& [function, of_run] : calls) {
      std::vector<Holder>& before = known_calls[function];
      const auto known = list_of(std::as_const(before), [](const Holder& row) { return &row; });
      std::vector<std::string> titles = list_of(of_run, &Holder::title);
      for (const auto& [a, b] : match_calls(known, of_run)) titles[b] = before[a].title;
      for (size_t row = 0; row < of_run.size(); ++row) {
        sites.put(titles[row], of_run[row]->kind, i, of_run[row]->bytes, true);
        if (titles[row] == of_run[row]->title) before.push_back(*of_run[row]);
      }
    }
  }
  result.sites = sites.take();
  std::ranges::stable_sort(result.sites, std::greater(), &Row::largest);
  if (result.sites.size() > top) {
    result.more_sites = result.sites.size() - top;
    result.sites.resize(top);
  }
  return result;
}

/// One column for each run, followed by the difference from the base, which is the first run that
/// ended in order. The peaks of a run that did not end in order are lower bounds: they are marked,
/// not compared with the base, and never shown as the best.
class CompareText {
 public:
  CompareText(const Profiles& runs, std::ostream& out, const TextStyle& style)
      : runs_(runs),
        out_(out),
        style_(style),
        figure_columns_(size_columns(style) + display_width(kAtLeast)),
        with_change_(runs.size() == 2 && style.width >= kNarrow) {
    for (const auto& run : runs) ends_.push_back(run_end(run->log().counters()));
    base_ = static_cast<size_t>(
        std::ranges::find_if(ends_, [](const RunEnd& end) { return end.in_order(); }) -
        ends_.begin());
    size_t figures = 2;
    for (size_t i = 0; i < runs.size(); ++i) figures += display_width(head(i));
    const auto width = static_cast<size_t>(style.width);
    title_columns_ = std::max(kNarrowestTitle, width > figures ? width - figures : 0);
  }

  void write(const Comparison& comparison) {
    for (size_t i = 0; i < runs_.size(); ++i) {
      const Quality quality = runs_[i]->quality();
      const bool fine = quality.exact && quality.log_complete;
      const std::string losses = losses_text(quality);
      const std::string end = exit_text(ends_[i]);
      out_ << fmt::format("{}  {}", bold(letter(i), style_),
                          cut(runs_[i]->definitions().shown(runs_[i]->path()),
                              static_cast<size_t>(style_.width), style_))
           << "  "
           << (ends_[i].in_order() ? end : alarm(end.empty() ? "no exit seen" : end, style_))
           << "  " << (fine ? losses : alarm(losses, style_)) << '\n';
    }
    widen(comparison);
    table("PEAKS", "", comparison.peaks, Shows::kPeak);
    table("PHASES", "peak within, " + side(comparison.scope), comparison.phases, Shows::kPeak);
    table("SITES", "at the peak of " + comparison.scope, comparison.sites, Shows::kHeldAtPeak);
    if (comparison.more_sites > 0)
      out_ << fmt::format("  {} more sites\n", grouped(comparison.more_sites));
  }

 private:
  enum class Shows { kPeak, kHeldAtPeak };

  static std::string letter(size_t run) {
    return run < 26 ? std::string(1, static_cast<char>('A' + run)) : std::to_string(run + 1);
  }
  static std::string side(const std::string& scope) {
    return scope.starts_with("device") ? "device memory" : "host memory";
  }
  static std::string kind_text(const Row& row) {
    return row.kind.empty() ? "" : kind_mark(row.kind);
  }
  bool is_compared(size_t run) const { return ends_[run].in_order() && run != base_; }

  /// If lines are not cut, the column of titles is as wide as the longest title.
  void widen(const Comparison& comparison) {
    size_t longest = 0;
    for (const auto* rows : {&comparison.peaks, &comparison.phases, &comparison.sites}) {
      for (const Row& row : *rows)
        longest = std::max(longest, display_width(row.title) + display_width(kind_text(row)));
    }
    title_columns_ = name_columns(title_columns_, longest, style_);
  }

  std::string head(size_t run) const {
    std::string text = ' ' + right(letter(run), figure_columns_);
    if (!is_compared(run)) return text;
    if (with_change_) text += ' ' + right("change", figure_columns_);
    return text + ' ' + right("", kPercentColumns);
  }

  std::string figure(const Row& row, size_t run, Shows shows) const {
    const std::optional<uint64_t>& value = row.values[run];
    const bool at_least = !ends_[run].in_order() && value && shows == Shows::kPeak;
    const std::string text =
        right((at_least ? std::string(kAtLeast) : "") + size_text(value, style_), figure_columns_);
    if (!ends_[run].in_order()) return ' ' + faint(text, style_);
    const bool stands_out = runs_.size() > 1 && value == row.largest() && differ(row);
    std::string cells = ' ' + (stands_out ? bold(text, style_) : text);
    if (!is_compared(run)) return cells;
    const std::optional<uint64_t>& base = row.values[base_];
    const bool both = value && base && *value != *base;
    if (with_change_)
      cells += ' ' + right(both ? change_size(*base, *value, style_) : "", figure_columns_);
    return cells + ' ' + right(both ? change_percent(*base, *value) : "", kPercentColumns);
  }

  void table(std::string_view name, const std::string& what, const std::vector<Row>& rows,
             Shows shows) {
    const bool empty = std::ranges::all_of(rows, [](const Row& row) { return row.largest() == 0; });
    if (empty) return;
    const size_t beside_name = title_columns_ + 2 - display_width(name);
    std::string line =
        bold(name, style_) + left(cut("  " + what, beside_name, style_), beside_name);
    for (size_t i = 0; i < runs_.size(); ++i) line += head(i);
    out_ << '\n' << without_end_spaces(line) << '\n';
    for (const Row& row : rows) {
      if (row.largest() == 0) continue;
      const std::string kind = kind_text(row);
      const size_t room = title_columns_ - std::min(title_columns_, display_width(kind));
      line = "  " + left(cut_title(row.title, room, style_) + kind, title_columns_);
      for (size_t i = 0; i < runs_.size(); ++i) line += figure(row, i, shows);
      out_ << without_end_spaces(line) << '\n';
    }
  }
  static std::string_view without_end_spaces(std::string_view line) {
    return line.substr(0, line.find_last_not_of(' ') + 1);
  }
  static bool differ(const Row& row) {
    return std::ranges::any_of(row.values,
                               [&](const auto& value) { return value != row.values.front(); });
  }

  const Profiles& runs_;
  std::ostream& out_;
  const TextStyle& style_;
  const size_t figure_columns_;
  const bool with_change_;    ///< room for the difference in bytes
  std::vector<RunEnd> ends_;  ///< by run
  size_t base_ = 0;           ///< the run that the others are compared with
  size_t title_columns_;
};

Json rows_json(const std::vector<Row>& rows, const char* title) {
  Json json = Json::array();
  for (const Row& row : rows) {
    Json one = {{title, row.title}};
    if (!row.kind.empty()) one["kind"] = row.kind;
    one["bytes"] = JsonFields::json_of(row.values);
    json.push_back(std::move(one));
  }
  return json;
}

Json compare_json(const Profiles& runs, const Comparison& comparison) {
  return object(
      "schema, runs, scope, peaks, phases, sites, other_sites", "gpupeak.compare/1",
      array_of(runs,
               [&](const auto& run) {
                 return object("log, exit, quality", run->definitions().shown(run->path()),
                               run_end(run->log().counters()), run->quality());
               }),
      comparison.scope, rows_json(comparison.peaks, "scope"), rows_json(comparison.phases, "phase"),
      rows_json(comparison.sites, "site"), comparison.more_sites);
}

}  // namespace

void write_compare(const Profiles& runs, const std::string& scope, size_t top, std::ostream& out,
                   const ViewStyle& style) {
  const Comparison comparison = compare(runs, scope, top);
  if (style.is_json()) return write_line(compare_json(runs, comparison), out);
  CompareText(runs, out, style).write(comparison);
}

}  // namespace gpupeak::collector
