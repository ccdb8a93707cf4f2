// How children of this process ended, where a signal ended them. HOOK-SAFE, in signal handlers too.
#pragma once

namespace gpupeak::preload {

/// Notes it in this process's log. `gpupeak run` reads it, and writes it into the child's log. A
/// process that is only counted gets a log for a child that was killed by SIGKILL. errno is left
/// alone.
void note_killed_child(int child, int signal);

}  // namespace gpupeak::preload
