// Loads libraries that may be missing.
#pragma once

namespace gpupeak::collector {

/// dlopen(…, RTLD_NOW | RTLD_LOCAL) by a whole path: from the folder of our own libraries, or one
/// of the system's. So LD_LIBRARY_PATH and the current folder do not count. nullptr if there is
/// none.
void* open_system_library(const char* name);

}  // namespace gpupeak::collector
