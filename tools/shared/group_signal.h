// Tells a signal that was sent to this process alone from one that its whole process group got (a
// terminal, `kill 0`, `kill -- -PGID`), or every process of a job or control group. siginfo_t does
// not say. So a second process of our group, the witness, blocks all signals, and what has come to
// both was sent to both.
#pragma once

namespace gpupeak::tools {

/// Starts the witness, a child of ours. If there can be none, no signal was sent to others.
void start_witness();
void end_witness();

/// Whether the witness, too, got the signal that this process has just got. `signal` must be
/// blocked in all threads of ours, as in a handler that blocks all. To be asked for each signal
/// that comes: the witness keeps what nobody has asked for. Async-signal-safe.
///
/// The same signal to the group and to us alone at the same instant cannot be told apart, and is
/// taken for one to the group; so is one that the kernel sends to each process in turn for longer
/// than this waits (2 ms) taken for one to us alone.
bool has_witness_got(int signal);

}  // namespace gpupeak::tools
