// The lines that a run ends with. Used by `run`, by `report --short` and by `top`.
#pragma once

#include <string>

#include "collector/rules/reading.h"
#include "collector/text/text_format.h"

namespace gpupeak::tools {

/// The short summary of a log, complete however long it takes; after a second a line on standard
/// error says what is being read. Where whatever reads the names dies of them, without names; where
/// the log cannot be read, what the library itself has counted. Throws LogError.
std::string short_summary(const std::string& log, const collector::Reading& reading,
                          const collector::TextStyle& style);

}  // namespace gpupeak::tools
