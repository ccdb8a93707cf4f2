// A name for the library that LD_PRELOAD can hold.
#pragma once

#include <filesystem>

namespace gpupeak::tools {

/// Spaces and colons separate names in LD_PRELOAD and cannot be escaped. A library in such a folder
/// is named by way of a link in a folder of this user's that nobody else can write to: the name is
/// good for all processes that the program leaves behind, too. Throws std::runtime_error if there
/// is no place for such a link.
std::filesystem::path preloadable_name(const std::filesystem::path& library);

}  // namespace gpupeak::tools
