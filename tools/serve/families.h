// The metrics of a folder's logs for Prometheus: names and labels by its conventions, values from
// the counters pages. docs/fleet.md lists them. A value that was not measured has no sample; it is
// never 0.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "tools/serve/pods.h"
#include "tools/shared/log_folder.h"

namespace gpupeak::tools {

std::vector<prometheus::MetricFamily> metric_families(const FolderView& view, const Pods& pods);

}  // namespace gpupeak::tools
