// How a process begins that the command forks for its own work.
#pragma once

#include <sys/prctl.h>

#include <csignal>
#include <fstream>

namespace gpupeak::tools {

/// Sets the handler of the signals by which a terminal, or whoever started the command, ends it.
inline void set_end_signals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, handler);
}

/// The helper ends when its parent does: nobody waits for its work any more.
inline void begin_helper(void (*on_end_signals)(int) = SIG_DFL) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_end_signals(on_end_signals);
}

/// If memory runs out, the kernel is to end the helper first.
inline void be_spared_first() {
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

}  // namespace gpupeak::tools
