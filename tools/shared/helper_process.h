// The first steps of a helper: a process that the command forks for its own work.
#pragma once

#include <sys/prctl.h>

#include <csignal>
#include <fstream>

namespace gpupeak::tools {

/// Sets the handler of the signals with which a terminal, or the command's caller, ends the
/// command.
inline void set_end_signals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, handler);
}

/// To be called in the helper. The helper ends when its parent ends, since nobody waits for its
/// work any more.
inline void begin_helper(void (*on_end_signals)(int) = SIG_DFL) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_end_signals(on_end_signals);
}

/// To be called in the helper: the kernel ends this process first if memory runs out.
inline void be_spared_first() {
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

}  // namespace gpupeak::tools
