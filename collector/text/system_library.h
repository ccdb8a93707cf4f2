// Libraries that are loaded only where they are there.
#pragma once

namespace gpupeak::collector {

/// dlopen(…, RTLD_NOW | RTLD_LOCAL) of a library from the folder of our own libraries or from one
/// of the system's, by its whole path: what LD_LIBRARY_PATH or the current folder has does not
/// count. nullptr if there is none.
void* open_system_library(const char* name);

}  // namespace gpupeak::collector
