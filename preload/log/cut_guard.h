// The log's pages are the file's. If somebody shortens the file, or the disk refuses a page that
// was written before, a store into the log raises SIGBUS. That costs the rest of the log, but never
// the program. So SIGBUS has a handler of ours. If our own code could not store, or could not read
// the counters page, the handler puts empty memory there. For every other SIGBUS it takes the
// program's own action, as if we were not there. HOOK-SAFE.
#pragma once

#include <csignal>
#include <cstddef>

namespace gpupeak::preload {

/// Guards SIGBUS from here on. The handler calls `on_cut` each time that a page of the log is gone.
void guard_log(void (*on_cut)());

/// Gives the program's own action back to the kernel, unless the program has set another one
/// meanwhile in a way that we do not see.
void unguard_log();

/// sigaction for SIGBUS, as the program calls it: sets and returns the program's own action.
int program_action(const struct sigaction* action, struct sigaction* old);

}  // namespace gpupeak::preload
