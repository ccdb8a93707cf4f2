// The page about one log or several, for the verbs that write one.
#pragma once

#include <string>
#include <vector>

#include "collector/rules/reading.h"

namespace gpupeak::tools {

/// Reads the logs one after the other and writes the page to `path`. `with_source`: with the lines
/// of source that its calls are at. Returns whether the runs are whole, as strict.h has it.
bool write_page(const std::vector<std::string>& logs, const collector::Reading& reading,
                bool with_source, const std::string& path);

}  // namespace gpupeak::tools
