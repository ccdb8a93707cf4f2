// Notes children of this process that a signal has ended. HOOK-SAFE, in signal handlers too.
#pragma once

#include <cstddef>

namespace gpupeak::preload {

/// Notes the child in this process's log. `gpupeak run` reads that, and writes it into the child's
/// log. A process that is only counted gets a log if a child was killed by SIGKILL. Leaves errno
/// alone.
void note_killed_child(int child, int signal);

// For programs that this process starts in an environment without us, as launchers do that clean it
// or preload a library of their own. Under `gpupeak run` such a program gets what it needs to be
// recorded. Everything here may be called in a vfork child and from a signal handler: it allocates
// nothing, writes to the caller's memory alone, and leaves errno alone.

/// At the process's start: remembers what its environment says of us, since that may change.
void remember_own_variables();
/// Tells the programs that this process will start that they are children, and of which run. Does
/// what setenv does, but without malloc: the program's own malloc may not be ready before main.
void mark_children();

/// The program that is about to run, as execveat() names it.
struct StartedProgram {
  int folder;  ///< what `path` is relative to; if `path` is empty, the program itself
  const char* path;
  bool searched;  ///< a name without a slash is searched in PATH
};

/// What is to be changed in `variables`. Nothing if we are not to be kept, or if the program could
/// not have us: it gains privileges, is linked statically, has another C library, or cannot be
/// read.
struct ChangedVariables {
  bool preload = false;      ///< LD_PRELOAD's entry
  bool without_us = false;   ///< the program is for another architecture: its loader would complain
  size_t entries = 0;        ///< of the new list, its end included
  size_t preload_bytes = 0;  ///< of LD_PRELOAD's new entry
};
bool find_variables_to_change(const StartedProgram& program, char* const* variables,
                              ChangedVariables& changed);
/// Fills the two: `list` has room for `entries`, `preload` for `preload_bytes`.
void change_variables(char* const* variables, const ChangedVariables& changed, char** list,
                      char* preload);

}  // namespace gpupeak::preload
