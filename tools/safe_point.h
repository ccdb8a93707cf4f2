// Whether a stopped thread of another program stands where it may be made to call into the loader
// and the allocator: in a system call that waits and was made by the program itself, or in the
// program's own code; nowhere within the loader, an allocator, a fork, an exit or a signal handler.
// What cannot be told is not safe.
#pragma once

#include <elfutils/libdwfl.h>
#include <sys/types.h>

#include <string>

namespace gpupeak::tools {

/// Why the thread is not at a safe point; empty: it is.
std::string unsafe_because(Dwfl* modules, pid_t thread);

}  // namespace gpupeak::tools
