// Keeps the names of a run's own programs and libraries in its logs when it has ended, so that
// reports stay the same when these have been built anew, or are gone.
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

/// In a process of its own, which damaged symbols may end, and ends once `stop` becomes true. Of
/// the time that the program `ran` it takes a fiftieth at most, at least 50 ms (kAuto), or, where
/// names were asked for, a tenth, two seconds to ten, of all modules twenty. Then it says that not
/// all did fit, unless `quiet`.
void keep_names(const std::vector<RunLog>& logs, NamesOf which, std::chrono::nanoseconds ran,
                bool quiet, const volatile sig_atomic_t& stop);

}  // namespace gpupeak::tools
