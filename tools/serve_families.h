// What Prometheus is told of the logs of a folder: names and labels by its conventions, values from
// the counters pages. docs/fleet.md lists them. What was not measured has no sample, never 0.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "log_folder.h"
#include "serve_pods.h"

namespace gpupeak::tools {

std::vector<prometheus::MetricFamily> metric_families(const FolderView& view, const Pods& pods);

}  // namespace gpupeak::tools
