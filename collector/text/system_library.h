// Loads libraries that may be missing.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <string>

namespace gpupeak::collector {

/// dlopen(…, RTLD_NOW | RTLD_LOCAL) by a whole path: from the folder of our own libraries, or one
/// of the system's. So LD_LIBRARY_PATH and the current folder do not count. nullptr if there is
/// none.
inline void* open_system_library(const char* name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
#if defined __aarch64__
  const std::string machine = "aarch64-linux-gnu";
#else
  const std::string machine = "x86_64-linux-gnu";
#endif
  for (const fs::path& folder :
       {own / "../lib/gpupeak", fs::path("/usr/local/lib") / machine, fs::path("/usr/local/lib"),
        fs::path("/usr/lib") / machine, fs::path("/usr/lib64"), fs::path("/usr/lib"),
        fs::path("/lib") / machine, fs::path("/lib64"), fs::path("/lib")}) {
    if (!folder.is_absolute()) continue;  // we may not know our own folder
    if (void* library = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace gpupeak::collector
