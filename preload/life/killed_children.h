// Notes children of this process that a signal has ended. HOOK-SAFE, in signal handlers too.
#pragma once

namespace gpupeak::preload {

/// Notes the child in this process's log. `gpupeak run` reads that, and writes it into the child's
/// log. A process that is only counted gets a log if a child was killed by SIGKILL. Leaves errno
/// alone.
void note_killed_child(int child, int signal);

}  // namespace gpupeak::preload
