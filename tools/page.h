// The page about one log or several, for the verbs that write one.
#pragma once

#include <string>
#include <vector>

namespace gpupeak::tools {

/// Reads the logs one after the other and writes the page to `path`. Returns whether everything in
/// it is exact.
bool write_page(const std::vector<std::string>& logs, const std::string& path);

}  // namespace gpupeak::tools
