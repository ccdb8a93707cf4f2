// The command's child processes, and the setting of SIGCHLD that this command was started with. Who
// starts it may ignore SIGCHLD, which outlives exec; the kernel then keeps no child's end.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>

namespace gpupeak::tools {

/// From here on the ends of our children are kept. To be called before the first child begins.
void keep_child_ends();
/// In a child: SIGCHLD is as this command found it. To be called before another program begins.
void restore_child_signal();

/// Waits for a child's end. Returns its status as waitpid() gives it; none: the end is not known.
std::optional<int> wait_for_child(pid_t child, rusage* usage = nullptr);

/// Where this process gets orphans (as process 1 of a container, or as a subreaper), somebody must
/// wait for them. Then this process does nothing else, hands signals on, and ends as the command
/// does, which goes on in a child: the function returns in that one. Else it just returns.
void leave_orphans_to_parent();

}  // namespace gpupeak::tools
