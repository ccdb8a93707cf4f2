// Functions of the driver that look like allocators and are in no row of cuda_table.def: a newer
// driver's. What they hand out is not seen, so the report says that they are there. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// The driver gave this function to the program, and there is no hook for it.
void note_unhooked(const char* name);
/// The program looks this name up; matters if the driver exports it and there is no hook.
void note_asked_for(const char* name);
/// Whether any are known.
bool has_missing_hooks();
/// All that the loaded driver exports.
void look_for_missing_hooks(const char* driver_library);
/// Writes what was found into the log, once it is open.
void log_missing_hooks();

}  // namespace gpupeak::preload
