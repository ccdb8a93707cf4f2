// Functions of a newer driver that look like allocators and have no row in cuda_table.def. Their
// blocks are not seen, so the report names them. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// The driver gave this function to the program, and there is no hook for it.
void note_unhooked(const char* name);
/// The program looks up this name. It matters if the driver exports it and there is no hook.
void note_asked_for(const char* name);
/// Whether any are known.
bool has_missing_hooks();
/// Looks at all functions that the loaded driver exports.
void look_for_missing_hooks(const char* driver_library);
/// Writes what was found into the log, once it is open.
void log_missing_hooks();

}  // namespace gpupeak::preload
