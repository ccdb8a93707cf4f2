// What differs between two summaries: peaks by site, metrics, phases. Sites are matched by
// functions and lines, then by functions alone, so that the runs may be of different builds.
// `gpupeak diff` and the gates call it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

struct SiteDiff {
  std::string title;
  std::string kind;
  uint64_t a_bytes = 0, b_bytes = 0;
  uint64_t a_count = 0, b_count = 0;
  /// The side without it lists only its largest sites, so that it may be there.
  bool unlisted = false;
  bool grew() const { return b_bytes > a_bytes; }
  uint64_t change() const { return grew() ? b_bytes - a_bytes : a_bytes - b_bytes; }
};

struct PeakDiff {
  std::string scope;
  std::optional<uint64_t> a_bytes, b_bytes;  ///< none: not measured
  std::optional<std::string> a_phase, b_phase;
  /// The largest change first. With the bytes below they add up to the change of the peak.
  std::vector<SiteDiff> sites;
  /// Bytes of sites that a side does not list, and of listed sites that may be among those.
  uint64_t a_other_bytes = 0, b_other_bytes = 0;
  uint64_t a_nameless_bytes = 0, b_nameless_bytes = 0;  ///< of sites known by addresses alone
};

/// Whether a part is known by which call of its function it is.
bool has_calls(const std::vector<SitePart>& parts);
/// Calls of one function in two builds that are the same buffer, as indexes into `a` and `b`:
/// their role says so, their size, or their order where both builds have equally many.
std::vector<std::pair<size_t, size_t>> match_calls(const std::vector<const Holder*>& a,
                                                   const std::vector<const Holder*>& b);

/// The sentence before the sites, if only one side has names; else empty.
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
  std::vector<PhaseDiff> phases;  ///< in the order of B, then those of A alone
};

Diff diff(const Summary& a, const Summary& b);

/// The change of one peak.
PeakDiff diff_peak(const Summary& a, const Summary& b, const std::string& scope);

/// The scope of the peak that a metric gives ("device.kind.pool.peak_bytes": "device/pool"); empty
/// if it is no peak's. For a run on one device it is that device's scope.
std::string scope_of_metric(const Summary& summary, const std::string& metric);

// How a difference between two runs is worded. The diff, the gates and their messages use it.

/// Stands between the first run's figure and the second's.
constexpr std::string_view kChangeArrow = " → ";

/// One line: "+512 MiB  (0 → 512 MiB)  site  [kind]".
std::string change_text(const SiteDiff& site, const TextStyle& style = {});
/// "+9.5 %"; empty if there is nothing to compare with.
std::string change_percent(uint64_t a, uint64_t b);

}  // namespace gpupeak::collector
