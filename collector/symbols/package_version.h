// The version of a library that is a module of a Python package, which the library's own symbols
// need not tell. ModuleSymbols asks for it.
#pragma once

#include <string>

namespace gpupeak::collector {

/// The __init__.py of the outermost package around the module's file. It need not be there: then
/// the module is in none.
std::string package_file(const std::string& module_path);

/// What stands there as `__version__ = "1.29.0"`; empty: nothing does.
std::string package_version(const std::string& module_path);

}  // namespace gpupeak::collector
