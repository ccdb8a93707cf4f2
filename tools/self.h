// Where this command lies: what it starts or loads lies beside it.
#pragma once

#include <filesystem>

namespace gpupeak::tools {

/// This program's file, also where there is no /proc.
std::filesystem::path own_path();

}  // namespace gpupeak::tools
