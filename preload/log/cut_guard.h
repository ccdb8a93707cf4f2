// The log's pages are the file's: if somebody shortens the file, or the disk refuses a page that
// was written before, a store into them raises SIGBUS. That may cost the rest of the log, never the
// program. So SIGBUS has a handler of ours, which puts memory where our own code could not store,
// or not read the counters page: with the page's bytes where the file still has them; for every
// other SIGBUS the program's own action is taken, as if we were not there. HOOK-SAFE.
#pragma once

#include <csignal>

namespace gpupeak::preload {

using SetAction = int (*)(int, const struct sigaction*, struct sigaction*);

/// From here on SIGBUS is guarded; `set` is the real sigaction. `on_cut` is called from the signal
/// handler each time that a page of the log is gone.
void guard_log(SetAction set, void (*on_cut)());

/// The program's own action is the kernel's again, unless it has set another one meanwhile by a way
/// that we do not see.
void unguard_log(SetAction set);

/// sigaction for SIGBUS, as the program calls it: sets and tells the program's own action.
int program_action(SetAction set, const struct sigaction* action, struct sigaction* old);

}  // namespace gpupeak::preload
