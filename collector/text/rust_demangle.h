// Demangles names of functions and types, in bounded time and space for any name. function_names.cc
// and RttiNames call it.
#pragma once

#include <optional>
#include <string>

namespace gpupeak::collector {

/// For both manglings of Rust, v0 and the legacy one; the result has no hashes. nullopt if it is no
/// Rust name, or if this build has no libiberty. A very long name ends in "…".
std::optional<std::string> rust_demangle(const std::string& name);

/// For C++ names as the Itanium ABI mangles them: a function's (_Z…), or a type's as std::type_info
/// has it. nullopt if it is no such name, or would take too long. A very long name ends in "…".
std::optional<std::string> cpp_demangle(const std::string& name);

/// The most back references that a name can have: each may double what is printed.
size_t back_references(const std::string& name);

}  // namespace gpupeak::collector
