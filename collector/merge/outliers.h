// Which process has more, or less, than those that do the same.
#pragma once

#include <vector>

#include "collector/merge/merged.h"

namespace gpupeak::collector {

/// Own peaks, and what holds them by tag and by site, against the median of the ranks that run the
/// same program (without ranks: of the processes). An outlier differs from it by more than
/// kDeviations times the median of all such differences, and by a hundredth of the median peak at
/// least: half of the ranks may be anything without moving the rule.
std::vector<Outlier> find_outliers(const Merged& merged);

inline constexpr size_t kFewestCompared = 3;
inline constexpr uint64_t kDeviations = 7;  ///< about five standard deviations of a normal spread

}  // namespace gpupeak::collector
