// Finds processes that have more, or less, than others that do the same work.
#pragma once

#include <vector>

#include "collector/merge/merged.h"

namespace gpupeak::collector {

/// Compares each process's own peak, and what holds it by tag and by site, with the median of the
/// ranks that run the same program (without ranks: of the processes). An outlier differs from the
/// median by more than kDeviations times the median of all such differences, and by at least a
/// hundredth of the median peak. Medians are used since a few extreme ranks do not move them.
std::vector<Outlier> find_outliers(const Merged& merged);

inline constexpr size_t kFewestCompared = 3;
inline constexpr uint64_t kDeviations = 7;  ///< about five standard deviations of a normal spread

}  // namespace gpupeak::collector
