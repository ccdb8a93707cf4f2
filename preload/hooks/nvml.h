// Hooks of NVML's functions for a device's memory, for dlsym: with a limit they say less.
// HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// Whether this is one of the functions that are hooked.
bool is_nvml_entry(const char* name);
/// What a program's dlsym(…, name), which found `found`, is to return: the hook, if there are
/// limits.
void* nvml_entry_for(const char* name, void* found);

}  // namespace gpupeak::preload
