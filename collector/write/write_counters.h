// What can be said of a run at once, however long its log is: the figures that the library has
// counted itself. `run` and `report --short` show it where to read the log
// too long.
#pragma once

#include <ostream>
#include <string>

#include "collector/log/log_head.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// `path`: what the log is called, as it is to be shown.
void write_counters(const LogHead& log, const std::string& path, std::ostream& out,
                    const TextStyle& style);

}  // namespace gpupeak::collector
