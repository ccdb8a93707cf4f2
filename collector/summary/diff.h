// What differs between two summaries: peaks by site, metrics, phases. Sites are matched by
// functions and lines, then by functions alone, so that the runs may be of different builds.
// `gpupeak diff` and the gates use it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

struct SiteDiff {
  std::string title;
  std::string kind;
  uint64_t a_bytes = 0, b_bytes = 0;
  uint64_t a_count = 0, b_count = 0;
  bool unlisted = false;  ///< a JSON that lists only its largest sites may have left it out
  bool grew() const { return b_bytes > a_bytes; }
  uint64_t change() const { return grew() ? b_bytes - a_bytes : a_bytes - b_bytes; }
};

struct PeakDiff {
  std::string scope;
  std::optional<uint64_t> a_bytes, b_bytes;  ///< none: not measured
  std::optional<std::string> a_phase, b_phase;
  /// The largest change first. With those below they add up to the change of the peak.
  std::vector<SiteDiff> sites;
  /// Of sites that a JSON does not list, and of those that the other side may have among them.
  uint64_t a_other_bytes = 0, b_other_bytes = 0;
  uint64_t a_nameless_bytes = 0, b_nameless_bytes = 0;  ///< of sites known by addresses alone
};

/// Said before the sites where one side alone has names; else empty.
std::string nameless_text(const PeakDiff& peak);

struct MetricDiff {
  std::string name;
  std::optional<uint64_t> a, b;
};

struct PhaseDiff {
  std::string name;  ///< "parent/name" where it has a parent
  bool in_a = false, in_b = false;
  std::vector<MetricDiff> metrics;
};

struct Diff {
  std::vector<PeakDiff> peaks;  ///< by scope
  std::vector<MetricDiff> metrics;
  std::vector<PhaseDiff> phases;  ///< in B's order, then those of A alone
};

Diff diff(const Summary& a, const Summary& b);

/// The change of one peak alone.
PeakDiff diff_peak(const Summary& a, const Summary& b, const std::string& scope);

/// The scope whose peak a metric is ("device.kind.pool.peak_bytes": "device/pool"); empty if it is
/// no peak's. Of a run on one device that is the device's own scope.
std::string scope_of_metric(const Summary& summary, const std::string& metric);

}  // namespace gpupeak::collector
