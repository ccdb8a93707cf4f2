// The lines that a run ends with, in time: nobody should have to wait for them because a log is
// large. Used by `run` and by `report --short --within`.
#pragma once

#include <string>

#include "collector/rules/reading.h"
#include "collector/text/text_format.h"

namespace gpupeak::tools {

/// The short summary of a log; where it takes longer than `most_seconds` to find its names, without
/// them; where it takes longer to read it, what the library itself has counted. Throws LogError.
std::string short_summary(const std::string& log, const collector::Reading& reading,
                          const collector::TextStyle& style, double most_seconds);

}  // namespace gpupeak::tools
