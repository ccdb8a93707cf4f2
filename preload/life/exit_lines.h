// Prints the lines at the end of a run without `gpupeak run`.
//
// in    the log, closed; the counters page
// out   on standard error: the first screen, by `gpupeak report --short LOG`; if that command
//       cannot be run, the peaks that were counted
#pragma once

namespace gpupeak::preload {

/// Runs the `gpupeak` command of this library's own installation, and no other. Prints nothing with
/// GPUPEAK_SUMMARY=off or GPUPEAK_QUIET=1.
void print_exit_lines();
/// From here on the lines are the counters alone: a filter of system calls forbids the command.
void leave_out_command();

}  // namespace gpupeak::preload
