// A program that this process starts in an environment without us, as launchers do that clean it or
// preload a library of their own. Under `gpupeak run` it gets what it takes to record it, too.
// Everything here may be called in a vfork child and from a signal handler: it allocates nothing,
// writes to the caller's memory alone, and leaves errno alone.
#pragma once

#include <cstddef>

namespace gpupeak::preload {

/// From the process's start: what its environment says of us, in case it is changed later.
void remember_own_variables();
/// Says to the programs that this one will start that they were not the one asked for, and of which
/// run they are. What setenv does, but without malloc: the program's own may not be ready before
/// main.
void mark_children();

/// The program that is about to run, as execveat() names it.
struct StartedProgram {
  int folder;  ///< that `path` is relative to, or the program itself if `path` is empty
  const char* path;
  bool searched;  ///< a name without a slash is looked for in PATH
};

/// What `variables` lacks. Nothing where it lacks nothing, where we are not to be kept, and where
/// the program could not have us: one that gains privileges, is linked statically, for another
/// architecture or another C library, or cannot be read.
struct MissingVariables {
  bool preload = false;      ///< LD_PRELOAD has us not
  size_t entries = 0;        ///< of the list with all of them, its end included
  size_t preload_bytes = 0;  ///< of LD_PRELOAD's new entry
};
bool find_missing_variables(const StartedProgram& program, char* const* variables,
                            MissingVariables& missing);
/// Fills both in: `list` has room for `entries`, `preload` for `preload_bytes`.
void add_missing_variables(char* const* variables, const MissingVariables& missing, char** list,
                           char* preload);

}  // namespace gpupeak::preload
