// What process.cc has for the hooks of the exec family.
#pragma once

#include "life/kept_preload.h"

namespace gpupeak::preload {

using Variables = char* const*;

/// The real exec or posix_spawn, with the program's other arguments.
struct Exec {
  int (*call)(const Exec& self, Variables variables);
};

/// Calls it with `variables`, and with what they lack for the other program to be recorded. In
/// vfork children and signal handlers: nothing is allocated, and the caller's list is left as it
/// is.
int another_program_starts(const StartedProgram& program, Variables variables, const Exec& exec);

}  // namespace gpupeak::preload
