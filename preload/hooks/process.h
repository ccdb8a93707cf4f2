// What process.cc offers to the hooks of the exec family.
#pragma once

#include "life/kept_preload.h"

namespace gpupeak::preload {

using Variables = char* const*;

/// The real exec or posix_spawn, with the program's other arguments.
struct Exec {
  int (*call)(const Exec& self, Variables variables);
};

/// Calls `exec` with `variables`, and with those variables added that the other program needs to be
/// recorded. Safe in vfork children and signal handlers: allocates nothing, and leaves the caller's
/// list as it is.
int another_program_starts(const StartedProgram& program, Variables variables, const Exec& exec);

}  // namespace gpupeak::preload
