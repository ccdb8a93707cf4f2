// NVML's figures of a device's memory, for dlsym: where a device has a limit they say so. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// Whether this is one of the functions that are hooked.
bool is_nvml_entry(const char* name);
/// What a program's dlsym(…, name) = `found` should give: the hook, if there are limits.
void* nvml_entry_for(const char* name, void* found);

}  // namespace gpupeak::preload
