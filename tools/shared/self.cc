#include "tools/shared/self.h"

#include <sys/auxv.h>
#include <unistd.h>

namespace gpupeak::tools {

namespace fs = std::filesystem;

fs::path own_path() {
  std::error_code error;
  fs::path own = fs::read_symlink("/proc/self/exe", error);
  if (error) own = fs::canonical(reinterpret_cast<const char*>(getauxval(AT_EXECFN)), error);
  return own;
}

fs::path preload_library() {
  std::error_code error;
  const fs::path folder = own_path().parent_path();
  for (const char* place : {"../preload/libgpupeak.so", "../lib/gpupeak/libgpupeak.so",
                            "../lib64/gpupeak/libgpupeak.so"}) {
    const fs::path library = (folder / place).lexically_normal();
    if (fs::exists(library, error)) return library;
  }
  return {};
}

fs::path server_program() {
  const fs::path bin = own_path().parent_path();
  for (const fs::path& folder : {bin.parent_path() / "lib" / "gpupeak", bin}) {
    const fs::path program = folder / "gpupeak_serve";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

}  // namespace gpupeak::tools
