// Where this command lies: what it starts or loads lies beside it.
#pragma once

#include <filesystem>

namespace gpupeak::tools {

/// This program's file, also where there is no /proc.
std::filesystem::path own_path();
/// The library that records, where a build folder or an installation keeps it; empty: nowhere.
std::filesystem::path preload_library();
/// The program that `serve` becomes; empty: it is not in this build.
std::filesystem::path server_program();

}  // namespace gpupeak::tools
