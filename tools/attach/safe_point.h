// Whether a stopped thread of another program is at a safe point: a place where it may be made to
// call into the loader and the allocator. Safe are the program's own code, and a system call that
// waits and was made by the program itself. Not safe are the loader, an allocator, a fork, an exit
// and a signal handler. A place that is not known is not safe.
#pragma once

#include <elfutils/libdwfl.h>
#include <sys/types.h>

#include <string>

namespace gpupeak::tools {

/// Why the thread is not at a safe point; empty: it is.
std::string unsafe_because(Dwfl* modules, pid_t thread);

}  // namespace gpupeak::tools
