// What process.cc offers to the hooks of the exec family.
#pragma once

#include "base/next_functions.h"
#include "life/children.h"

namespace gpupeak::preload {

// Called when libraries are unloaded, by dlclose or by the loader itself. HOOK-SAFE, outside any
// HookScope.

/// Forgets libraries that are gone: others may be loaded at their addresses.
void forget_unloaded_libraries();

/// The dynamic loader frees memory, as it does when it has unmapped a library.
void loader_has_freed();

/// Calls `exec`, the real exec or posix_spawn with the program's other arguments, with `variables`
/// and with those variables added that the other program needs to be recorded. Safe in vfork
/// children and signal handlers: allocates nothing, and leaves the caller's list as it is.
int another_program_starts(const StartedProgram& program, Variables variables,
                           FunctionRef<int(Variables)> exec);

}  // namespace gpupeak::preload
