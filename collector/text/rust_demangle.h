// Names of Rust functions as their source has them. function_names.cc calls it.
#pragma once

#include <optional>
#include <string>

namespace gpupeak::collector {

/// Of both manglings, v0 and the legacy one, and without hashes; nothing if it is no Rust name, or
/// if this build has no libiberty. A very long one ends in "…".
std::optional<std::string> rust_demangle(const std::string& name);

}  // namespace gpupeak::collector
