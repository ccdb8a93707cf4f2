// A build without libiberty: names of Rust stay as the linker knows them.
#include "collector/text/rust_demangle.h"

namespace gpupeak::collector {

std::optional<std::string> rust_demangle(const std::string&) {
  return std::nullopt;
}

}  // namespace gpupeak::collector
