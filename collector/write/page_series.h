// How a page has a sum over time.
#pragma once

#include "collector/timeline/time_series.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// The buckets that differ from the one before, as [how many further on, max, min]; without min
/// where it is max.
Json series_changes(const Series& series);

}  // namespace gpupeak::collector
