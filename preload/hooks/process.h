// What process.cc offers to the hooks of the exec family.
#pragma once

#include "base/next_functions.h"
#include "life/children.h"

namespace gpupeak::preload {

/// The dynamic loader frees memory, as it does when it has unmapped a library. HOOK-SAFE, outside
/// any HookScope.
void loader_has_freed();

/// Calls `exec`, the real exec or posix_spawn with the program's other arguments, with `variables`
/// and with those variables added that the other program needs to be recorded. Safe in vfork
/// children and signal handlers: allocates nothing, and leaves the caller's list as it is.
int another_program_starts(const StartedProgram& program, Variables variables,
                           FunctionRef<int(Variables)> exec);

}  // namespace gpupeak::preload
