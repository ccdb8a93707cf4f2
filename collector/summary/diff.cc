#include "collector/summary/diff.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "collector/text/title_text.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kPeakSuffix = ".peak_bytes";

/// "device" or "host" and the kind of a peak's metric: "device.kind.pool.peak_bytes" → device/pool.
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

/// A scope that is not listed held nothing, unless it was not measured at all.
std::optional<uint64_t> peak_bytes(const Summary& summary, const std::string& scope) {
  if (const Peak* peak = summary.find_peak(scope)) return peak->bytes;
  if (scope == "total") return std::nullopt;
  if (scope.starts_with("device")) return 0;
  for (const auto& [name, value] : summary.metrics) {
    if (plain_scope(name) == scope) return value ? std::optional<uint64_t>(0) : std::nullopt;
  }
  return std::nullopt;
}

/// A frame without a function is named by its address, which another build has elsewhere.
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

using SiteKey = std::pair<std::string, std::string>;  // kind, title
using Sites = std::map<SiteKey, SiteDiff>;

void add(SiteDiff& to, const SiteDiff& from) {
  to.a_bytes += from.a_bytes;
  to.b_bytes += from.b_bytes;
  to.a_count += from.a_count;
  to.b_count += from.b_count;
}

void collect(const Peak* peak, bool of_b, Sites& sites) {
  if (peak == nullptr) return;
  for (const Holder& holder : peak->holders) {
    SiteDiff& site = sites[{holder.kind, holder.title}];
    (of_b ? site.b_bytes : site.a_bytes) += holder.bytes;
    (of_b ? site.b_count : site.a_count) += holder.count;
  }
}

/// Sites of one side only that have frames without names are matched by what is left of them.
Sites match_nameless(const Sites& sites) {
  Sites matched;
  for (const auto& [key, site] : sites) {
    const bool one_sided = site.a_bytes == 0 || site.b_bytes == 0;
    add(matched[{key.first, one_sided ? without_addresses(key.second) : key.second}], site);
  }
  return matched;
}

/// A side that lists only its largest sites may hold as much as its smallest row at any other: a
/// site that is no larger on the other side need not have changed.
struct Unlisted {
  explicit Unlisted(const Peak* peak) {
    if (peak == nullptr || peak->other_bytes == 0) return;
    possible_bytes = peak->holders.empty() ? peak->other_bytes : peak->holders.back().bytes;
  }
  uint64_t possible_bytes = 0;
};

std::string path_of(const PhaseSummary& phase) {
  return phase.parent ? *phase.parent + "/" + phase.name : phase.name;
}

std::vector<MetricDiff> diff_metrics(const Metrics& a, const Metrics& b) {
  std::set<std::string> names;
  for (const auto& [name, value] : a) names.insert(name);
  for (const auto& [name, value] : b) names.insert(name);
  std::vector<MetricDiff> metrics;
  for (const std::string& name : names) metrics.push_back({name, metric(a, name), metric(b, name)});
  return metrics;
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
    const auto others = of_a.find(path);
    const size_t number = next[path]++;
    PhaseDiff diff{path, false, true, {}};
    if (others != of_a.end() && number < others->second.size()) {
      const PhaseSummary* other = others->second[number];
      matched.insert(other);
      diff.in_a = true;
      diff.metrics = diff_metrics(other->metrics, phase.metrics);
    } else {
      diff.metrics = diff_metrics({}, phase.metrics);
    }
    phases.push_back(std::move(diff));
  }
  for (const PhaseSummary& phase : a.phases) {
    if (matched.contains(&phase)) continue;
    phases.push_back({path_of(phase), true, false, diff_metrics(phase.metrics, {})});
  }
  return phases;
}

}  // namespace

PeakDiff diff_peak(const Summary& a, const Summary& b, const std::string& scope) {
  const Peak* of_a = a.find_peak(scope);
  const Peak* of_b = b.find_peak(scope);
  PeakDiff diff;
  diff.scope = scope;
  diff.a_bytes = peak_bytes(a, scope);
  diff.b_bytes = peak_bytes(b, scope);
  if (of_a != nullptr) diff.a_phase = of_a->phase, diff.a_other_bytes = of_a->other_bytes;
  if (of_b != nullptr) diff.b_phase = of_b->phase, diff.b_other_bytes = of_b->other_bytes;
  Sites sites;
  collect(of_a, false, sites);
  collect(of_b, true, sites);
  const Unlisted in_a(of_a);
  const Unlisted in_b(of_b);
  for (auto& [key, site] : match_nameless(sites)) {
    const uint64_t possible_bytes = site.a_bytes == 0   ? in_a.possible_bytes
                                    : site.b_bytes == 0 ? in_b.possible_bytes
                                                        : 0;
    if (possible_bytes >= site.a_bytes + site.b_bytes) {
      diff.a_other_bytes += site.a_bytes;
      diff.b_other_bytes += site.b_bytes;
      continue;
    }
    site.unlisted = possible_bytes > 0;
    std::tie(site.kind, site.title) = key;
    diff.sites.push_back(site);
  }
  std::stable_sort(diff.sites.begin(), diff.sites.end(),
                   [](const SiteDiff& x, const SiteDiff& y) { return x.change() > y.change(); });
  return diff;
}

Diff diff(const Summary& a, const Summary& b) {
  std::set<std::string> scopes;
  for (const Peak& peak : a.peaks) scopes.insert(peak.scope);
  for (const Peak& peak : b.peaks) scopes.insert(peak.scope);
  Diff diff;
  for (const std::string& scope : scopes) diff.peaks.push_back(diff_peak(a, b, scope));
  diff.metrics = diff_metrics(a.metrics, b.metrics);
  diff.phases = diff_phases(a, b);
  return diff;
}

std::string scope_of_metric(const Summary& summary, const std::string& metric) {
  const std::string scope = plain_scope(metric);
  if (summary.find_peak(scope) != nullptr || !scope.starts_with("device")) return scope;
  const std::string kind = scope.substr(std::string_view("device").size());
  return summary.devices.size() == 1
             ? "device:" + std::to_string(summary.devices.front().ordinal) + kind
             : scope;
}

}  // namespace gpupeak::collector
