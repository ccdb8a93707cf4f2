// A run of several processes as JSON: the part "whole_run" of what `report --json` writes.
#pragma once

#include "collector/summary/summary.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// Of a summary that has one.
Json whole_run_json(const Summary& summary);

}  // namespace gpupeak::collector
