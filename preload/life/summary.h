// The lines at the end of a run without `gpupeak run`.
#pragma once

namespace gpupeak::preload {

/// Prints the short report of the log to stderr through the `gpupeak` command that lies beside this
/// library, or the bare counters if there is none. Nothing with GPUPEAK_SUMMARY=off or
/// GPUPEAK_QUIET=1.
void print_summary();
/// No other process may be started for it: it is what was counted.
void leave_out_command();

}  // namespace gpupeak::preload
