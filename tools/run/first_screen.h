// The first screen: the lines that a run ends with. `run`, `report --short` and `top` show it.
//
// in    a log
// out   "peak 5.10 GiB of 22.0 GiB on GPU 0 at +3.20 s, in step", who held it, what to do next
#pragma once

#include <string>

#include "collector/rules/rule_book.h"
#include "collector/text/text_format.h"
#include "tools/run/screen_ahead.h"

namespace gpupeak::tools {

/// Complete, however long it takes; after a second a line on standard error says what is being
/// read. A process of its own reads the names of functions: if it dies of a damaged file, there are
/// no names. If the log cannot be read, the lines are what the library itself has counted. `ahead`:
/// has read names while the program ran; nullptr: nothing has. Throws LogError.
std::string first_screen(const std::string& log, const collector::Reading& reading,
                         const collector::TextStyle& style, ScreenAhead* ahead = nullptr);

}  // namespace gpupeak::tools
