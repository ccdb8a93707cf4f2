// What a person sees who opens the server in a browser, or by curl: what there is, and the
// programs.
#pragma once

#include <string>

#include "log_folder.h"

namespace gpupeak::tools {

/// A page of HTML that loads nothing. `folder`: whose logs these are.
std::string index_page(const FolderView& view, const std::string& folder);

}  // namespace gpupeak::tools
