// A sum over time, as JSON for a page.
#pragma once

#include "collector/timeline/time_series.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// The buckets that differ from the one before, each as [buckets since the last one listed, max,
/// min]; min is left out if it equals max.
Json series_changes(const Series& series);

}  // namespace gpupeak::collector
