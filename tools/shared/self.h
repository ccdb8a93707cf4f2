// Where this command's file lies, and the files that it starts or loads.
#pragma once

#include <filesystem>

namespace gpupeak::tools {

/// This program's file, also where there is no /proc.
std::filesystem::path own_path();
/// The library that records, in the place of a build folder or an installation; empty: not found.
std::filesystem::path preload_library();
/// The program that `serve` becomes; empty: it is not in this build.
std::filesystem::path server_program();

}  // namespace gpupeak::tools
