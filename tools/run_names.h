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
enum class NamesOf { kOwn, kAll, kNone };
NamesOf names_of(const std::string& name);

/// In a process of its own, which damaged symbols may end. Takes a tenth of the time that the
/// program `ran` at most, at least two seconds, at most ten, of all modules twenty, and ends once
/// `stop` becomes true. Says that not all did fit, unless `quiet`.
void keep_names(const std::vector<RunLog>& logs, NamesOf which, std::chrono::nanoseconds ran,
                bool quiet, const volatile sig_atomic_t& stop);

}  // namespace gpupeak::tools
