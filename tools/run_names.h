// Keeps the names of functions of a run's own programs and libraries in its logs, when the run has
// ended. So reports stay the same if these files are built anew, or removed.
#pragma once

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "run_logs.h"

namespace gpupeak::tools {

/// Of which modules; the names that the option has.
enum class NamesOf { kAuto, kOwn, kAll, kNone };
NamesOf names_of(const std::string& name);

/// Works in a process of its own, since damaged symbols may end it; ends early if `stop` becomes
/// true. Time limit: with kAuto a fiftieth of the time that the program `ran`, 50 ms to 2 s; with
/// kOwn a tenth of it, 2 s to 10 s; with kAll 20 s. Says if that was too little for all names,
/// unless `quiet` or kAuto.
void keep_names(const std::vector<RunLog>& logs, NamesOf which, std::chrono::nanoseconds ran,
                bool quiet, const volatile sig_atomic_t& stop);

}  // namespace gpupeak::tools
