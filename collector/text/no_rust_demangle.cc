// For a build without libiberty. Rust names stay mangled. So do C++ names with many back
// references, since __cxa_demangle has no bound.
#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "collector/text/function_names.h"

namespace gpupeak::collector {

std::optional<std::string> rust_demangle(const std::string&) {
  return std::nullopt;
}

std::optional<std::string> cpp_demangle(const std::string& name) {
  constexpr size_t kMostReferences = 24, kMostBytes = size_t{1} << 14;
  if (name.size() > kMostBytes || back_references(name) > kMostReferences) return std::nullopt;
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &free);
  if (status != 0 || !text) return std::nullopt;
  return text.get();
}

}  // namespace gpupeak::collector
