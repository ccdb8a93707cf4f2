// The page at the root of the server, for a person with a browser or curl: the server's addresses,
// and the programs.
#pragma once

#include <string>

#include "tools/shared/log_folder.h"

namespace gpupeak::tools {

/// A page of HTML that loads nothing else. `folder`: the name of the logs' folder.
std::string index_page(const FolderView& view, const std::string& folder);

}  // namespace gpupeak::tools
