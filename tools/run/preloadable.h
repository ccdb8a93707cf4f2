// A path of the library that LD_PRELOAD can hold.
#pragma once

#include <filesystem>

namespace gpupeak::tools {

/// Spaces and colons separate names in LD_PRELOAD and cannot be escaped. If the library's folder
/// has one in its path, the result leads through a link to that folder. The link is in a folder of
/// this user that nobody else can write to, and it stays, for processes that outlive the program.
/// Throws std::runtime_error if there is no place for such a link.
std::filesystem::path preloadable_name(const std::filesystem::path& library);

}  // namespace gpupeak::tools
