// The figures that the library counted itself, which need no replay. `run` and `report --short`
// show them if the log cannot be read.
#pragma once

#include <ostream>
#include <string>

#include "collector/log/log_head.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// `path`: the log's name as it is shown.
void write_counters(const LogHead& log, const std::string& path, std::ostream& out,
                    const TextStyle& style);

}  // namespace gpupeak::collector
