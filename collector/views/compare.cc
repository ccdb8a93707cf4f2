#include "collector/views/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/views/heading.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kNarrowestTitle = 20;

/// A figure of each run; none: the run has nothing of it.
struct Row {
  std::string title;
  std::string kind;  ///< of a site
  std::vector<std::optional<uint64_t>> values;
  uint64_t largest() const {
    uint64_t largest = 0;
    for (const auto& value : values) largest = std::max(largest, value.value_or(0));
    return largest;
  }
};

struct Comparison {
  std::string scope;  ///< of phases and sites
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
  /// The larger of several values of one run, or their sum.
  void put(const std::string& title, const std::string& kind, size_t run, uint64_t value,
           bool add) {
    const auto [known, added] = index_.try_emplace({title, kind}, rows_.size());
    if (added) {
      rows_.push_back({title, kind, std::vector<std::optional<uint64_t>>(runs_)});
    }
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
  const bool devices = std::any_of(runs.begin(), runs.end(), [](const auto& run) {
    return find_scope(*run, "device").has_value();
  });
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const ScopeId id : runs[i]->scopes()) {
      // Without devices the total is the host's.
      if (runs[i]->scope_info(id).name == "total" && !devices) continue;
      rows.put(runs[i]->scope_info(id).name, "", i, runs[i]->sum(id).peak, false);
    }
  }
  std::vector<Row> all = rows.take();
  std::sort(all.begin(), all.end(), [](const Row& a, const Row& b) { return a.title < b.title; });
  return all;
}

std::vector<Row> compare_phases(const Profiles& runs, bool device_side) {
  Rows rows(runs.size());
  const PhaseSide side = device_side ? kDeviceSide : kHostSide;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<Phase>& phases = runs[i]->replay().phases().phases();
    for (PhaseId id = 1; id < phases.size(); ++id) {
      rows.put(std::as_const(*runs[i]).sites().phase_name(id).value_or(""), "", i,
               phases[id].peak_bytes[side], false);
    }
  }
  return rows.take();
}

Comparison compare(const Profiles& runs, const std::string& scope, size_t top) {
  Comparison result;
  result.scope = scope.empty() ? runs.front()->scope_info(runs.front()->scope("")).name : scope;
  const bool known = std::any_of(runs.begin(), runs.end(), [&](const auto& run) {
    return find_scope(*run, result.scope).has_value();
  });
  if (!known && !scope.empty()) {
    throw UsageError(fmt::format("none of the runs has memory of scope '{}'", escape(scope)));
  }
  result.peaks = compare_peaks(runs);
  result.phases = compare_phases(runs, result.scope.starts_with("device"));
  Rows sites(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::optional<ScopeId> id = find_scope(*runs[i], result.scope);
    if (!id) continue;
    const HolderTable table = runs[i]->sites().table(runs[i]->at_peak(*id), SIZE_MAX, false);
    for (const Holder& row : table.rows) sites.put(row.title, row.kind, i, row.bytes, true);
  }
  result.sites = sites.take();
  std::stable_sort(result.sites.begin(), result.sites.end(),
                   [](const Row& a, const Row& b) { return a.largest() > b.largest(); });
  if (result.sites.size() > top) {
    result.more_sites = result.sites.size() - top;
    result.sites.resize(top);
  }
  return result;
}

class CompareText {
 public:
  CompareText(const Profiles& runs, std::ostream& out, const TextStyle& style)
      : runs_(runs), out_(out), style_(style), figure_columns_(size_columns(style)) {
    const auto width = static_cast<size_t>(style.width);
    const size_t figures = 2 + runs.size() * (figure_columns_ + 1);
    title_columns_ = std::max(kNarrowestTitle, width > figures ? width - figures : 0);
  }

  void write(const Comparison& comparison) {
    for (size_t i = 0; i < runs_.size(); ++i) {
      const Quality quality = runs_[i]->quality();
      const bool fine = quality.exact && quality.log_complete;
      const std::string losses = losses_text(quality);
      out_ << fmt::format("{}  {}", bold(letter(i), style_),
                          fit(runs_[i]->definitions().shown(runs_[i]->path()), title_columns_))
           << "  " << (fine ? losses : alarm(losses, style_)) << '\n';
    }
    table("PEAKS", "", comparison.peaks);
    table("PHASES", "peak within, " + side(comparison.scope), comparison.phases);
    table("SITES", "at the peak of " + comparison.scope, comparison.sites);
    if (comparison.more_sites > 0) {
      out_ << fmt::format("  {} more sites\n", grouped(comparison.more_sites));
    }
  }

 private:
  static std::string letter(size_t run) {
    return run < 26 ? std::string(1, static_cast<char>('A' + run)) : std::to_string(run + 1);
  }
  static std::string side(const std::string& scope) {
    return scope.starts_with("device") ? "device memory" : "host memory";
  }

  void table(std::string_view name, const std::string& what, const std::vector<Row>& rows) {
    const bool empty =
        std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.largest() == 0; });
    if (empty) return;
    out_ << '\n'
         << bold(name, style_) << left("  " + what, title_columns_ + 2 - display_width(name));
    for (size_t i = 0; i < runs_.size(); ++i) out_ << ' ' << right(letter(i), figure_columns_);
    out_ << '\n';
    for (const Row& row : rows) {
      const uint64_t largest = row.largest();
      if (largest == 0) continue;
      const std::string kind =
          row.kind.empty() ? "" : fmt::format("  [{}]", row.kind.substr(row.kind.find('.') + 1));
      const size_t room = title_columns_ - std::min(title_columns_, display_width(kind));
      out_ << "  " << left(fit(row.title, room) + kind, title_columns_);
      for (const auto& value : row.values) {
        const std::string text = right(size_text(value, style_), figure_columns_);
        const bool stands_out = runs_.size() > 1 && value == largest && differ(row);
        out_ << ' ' << (stands_out ? bold(text, style_) : text);
      }
      out_ << '\n';
    }
  }
  static bool differ(const Row& row) {
    return std::any_of(row.values.begin(), row.values.end(),
                       [&](const auto& value) { return value != row.values.front(); });
  }

  const Profiles& runs_;
  std::ostream& out_;
  const TextStyle& style_;
  const size_t figure_columns_;
  size_t title_columns_;
};

Json rows_json(const std::vector<Row>& rows, const char* title) {
  Json json = Json::array();
  for (const Row& row : rows) {
    Json values = Json::array();
    for (const auto& value : row.values) values.push_back(nullable(value));
    Json one = {{title, row.title}};
    if (!row.kind.empty()) one["kind"] = row.kind;
    one["bytes"] = std::move(values);
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace

void write_compare(const Profiles& runs, const std::string& scope, size_t top, std::ostream& out,
                   const TextStyle& style) {
  const Comparison comparison = compare(runs, scope, top);
  CompareText(runs, out, style).write(comparison);
}

void write_compare_json(const Profiles& runs, const std::string& scope, size_t top,
                        std::ostream& out) {
  const Comparison comparison = compare(runs, scope, top);
  Json json;
  json["schema"] = "gpupeak.compare/1";
  json["runs"] = Json::array();
  for (const auto& run : runs) {
    json["runs"].push_back({{"log", run->definitions().shown(run->path())},
                            {"quality", quality_json(run->quality())}});
  }
  json["scope"] = comparison.scope;
  json["peaks"] = rows_json(comparison.peaks, "scope");
  json["phases"] = rows_json(comparison.phases, "phase");
  json["sites"] = rows_json(comparison.sites, "site");
  json["other_sites"] = comparison.more_sites;
  write_line(json, out);
}

}  // namespace gpupeak::collector
