// A process that the command makes for work of its own, by fork: how it begins.
#pragma once

#include <sys/prctl.h>

#include <csignal>
#include <fstream>

namespace gpupeak::tools {

/// For the signals by which a terminal, or who started the command, ends it.
inline void set_end_signals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, handler);
}

/// However its parent ends: nobody waits for it any more.
inline void begin_helper(void (*on_end_signals)(int) = SIG_DFL) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_end_signals(on_end_signals);
}

/// Where memory runs out, this is what can be spared.
inline void be_spared_first() {
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

}  // namespace gpupeak::tools
