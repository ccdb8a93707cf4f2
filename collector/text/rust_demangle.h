// Names of functions and types as their source has them, in bounded time and space whatever the
// name is. function_names.cc and RttiNames call it.
#pragma once

#include <optional>
#include <string>

namespace gpupeak::collector {

/// Of both manglings, v0 and the legacy one, and without hashes; nothing if it is no Rust name, or
/// if this build has no libiberty. A very long one ends in "…".
std::optional<std::string> rust_demangle(const std::string& name);

/// Of C++ as the Itanium ABI mangles it: a function's (_Z…), or a type's as std::type_info has it;
/// nothing if it is none, or would take too long. A very long one ends in "…".
std::optional<std::string> cpp_demangle(const std::string& name);

/// How many back references a name has, at most: each may double what is printed.
size_t back_references(const std::string& name);

}  // namespace gpupeak::collector
