// System calls in which a thread waits, and how each goes on after the thread was stopped in it.
// Some begin anew by themselves; others fail with EINTR although no signal has come, so they are
// told to begin anew. If a call has a time limit, only what is left of it may be waited for again.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <chrono>
#include <string>

namespace gpupeak::tools {

using Instant = std::chrono::steady_clock::time_point;

/// Whether it is one of the system calls that wait, and hold nothing meanwhile.
bool is_wait(long system_call);
/// Makes an interrupted call that would fail with EINTR begin anew, for the time that is left of
/// one that began at `began`. Returns whether it has changed the registers.
bool begin_wait_anew(user_regs_struct& registers, Instant began);

/// What was seen of a thread from outside, without stopping it.
struct Look {
  std::string not_now;  ///< why the thread is not to be stopped now; empty: it may be
  Instant at;
  Instant began;      ///< of the wait in which it was, if that has a limit; else as `at`
  std::string waits;  ///< how often it has waited so far
};
Look look_at(pid_t pid, pid_t thread);
/// When the wait began in which a thread was stopped after that look.
Instant wait_began(pid_t thread, const Look& look);
/// Whether what is left of the limit of this call cannot be found out.
bool has_unknown_limit(pid_t pid, const user_regs_struct& registers);

}  // namespace gpupeak::tools
