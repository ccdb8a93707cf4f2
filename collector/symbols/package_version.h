// Reads the version of a library that is a module of a Python package: the library's own symbols
// may not tell it. ModuleSymbols asks for it.
#pragma once

#include <string>

namespace gpupeak::collector {

/// The __init__.py of the outermost package around the module's file. If the file is not there, the
/// module is in no package.
std::string package_file(const std::string& module_path);

/// The value of `__version__ = "1.29.0"` in that file; empty: it has none.
std::string package_version(const std::string& module_path);

}  // namespace gpupeak::collector
