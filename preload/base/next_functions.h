// What the program would call without our hooks: functions of the C library, or of another library
// that stands before it. All are looked up at once, in one pass over the libraries: by the first
// hook that is called, or by our constructor. In a vfork child or a signal handler the loader's
// lock may be held. HOOK-SAFE.
#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <csignal>

#include "base/compiler.h"

struct rlimit;
struct rusage;

namespace gpupeak::preload {

using Variables = char* const*;
using SignalHandler = void (*)(int);
using SpawnActions = posix_spawn_file_actions_t;
using SpawnAttributes = posix_spawnattr_t;

/// nullptr: there is no such function.
struct NextFunctions {
#define NEXT(function, result, parameters) result(*function) parameters;
#include "base/next_functions.def"
#undef NEXT
};
extern constinit GPUPEAK_OWN NextFunctions g_next;
extern constinit GPUPEAK_OWN bool g_next_is_known;
/// Threads may do it at once: all find the same.
void find_next_functions();
inline const NextFunctions& next() {
  if (__builtin_expect(!__atomic_load_n(&g_next_is_known, __ATOMIC_ACQUIRE), 0))
    find_next_functions();
  return g_next;
}

}  // namespace gpupeak::preload
