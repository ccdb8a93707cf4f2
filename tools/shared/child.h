// How the command's child processes end. A program that ignores SIGCHLD passes that setting on to
// whatever it starts. Where SIGCHLD is ignored, the kernel forgets at once how a child ended.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>

namespace gpupeak::tools {

/// Sets SIGCHLD to its default, so that the kernel keeps how a child ended until we wait for it. To
/// be called before the first child begins.
void keep_child_ends();
/// Sets SIGCHLD as this command found it. To be called in a child, before another program begins
/// there.
void restore_child_signal();

/// The exit code that tells of a status as waitpid() gives it: the program's, or 128 + the signal.
int exit_code(int status);
/// Waits for a child's end. Returns its status as waitpid() gives it; none: the end is not known.
std::optional<int> wait_for_child(pid_t child, rusage* usage = nullptr);

/// As process 1 of a container, or as a subreaper, this process becomes the parent of orphans, and
/// must wait for them. Then the command goes on in a child, where this function returns. The parent
/// waits for all children, hands signals on to that child, and ends with its exit code. In any
/// other process the function just returns.
void leave_orphans_to_parent();

}  // namespace gpupeak::tools
