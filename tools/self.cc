#include "self.h"

#include <sys/auxv.h>

namespace gpupeak::tools {

namespace fs = std::filesystem;

fs::path own_path() {
  std::error_code error;
  fs::path own = fs::read_symlink("/proc/self/exe", error);
  if (error) own = fs::canonical(reinterpret_cast<const char*>(getauxval(AT_EXECFN)), error);
  return own;
}

}  // namespace gpupeak::tools
