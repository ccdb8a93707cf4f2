// System calls in which a thread waits, and how each goes on after the thread was stopped in it.
// Some begin anew by themselves; others fail with EINTR although no signal has come, so they are
// told to begin anew. If a call has a time limit, only what is left of it may be waited for again.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <chrono>
#include <map>
#include <string>

namespace gpupeak::tools {

using Instant = std::chrono::steady_clock::time_point;

/// Whether it is one of the system calls that wait, and hold nothing meanwhile.
bool is_wait(long system_call);
/// Makes an interrupted call that would fail with EINTR begin anew, for the time that is left of
/// one that began at `began`. Returns whether it has changed the registers.
bool begin_wait_anew(user_regs_struct& registers, Instant began);

/// Looks at the threads of a process from outside, without stopping them.
class ThreadLooks {
 public:
  explicit ThreadLooks(pid_t pid) : pid_(pid) {}
  /// Why the thread is not to be stopped now; empty: it may be. `began`: then a wait in which it is
  /// found has begun at about that time, if it is one with a limit.
  std::string not_now(pid_t thread, Instant& began);
  /// Whether what is left of the limit of this call cannot be found out.
  bool has_unknown_limit(const user_regs_struct& registers) const;

 private:
  struct Look {
    std::string call;  ///< the system call, and how often the thread has waited
    Instant at;
  };
  const pid_t pid_;
  std::map<pid_t, Look> last_;
};

}  // namespace gpupeak::tools
