// Compresses the logs of a run in place: each keeps its name, and every verb reads it. `run` does
// this last, when everything else is done and said.
#pragma once

#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include "tools/run/logs.h"

namespace gpupeak::tools {

/// The most threads that compress one log.
inline constexpr size_t kCompressionThreads = 4;

enum class Compression { kAuto, kAlways, kNever };
/// "auto", "always" or "never".
Compression compression(const std::string& name);

/// Leaves out logs that are still being written and, with kAuto, small logs. If `stop` becomes
/// true, if there is no room, or if anything else goes wrong, the log stays as it was. Meanwhile
/// the summary of the first log is made, if there are processors for it (run_summary.h).
void compress_logs(const std::vector<RunLog>& logs, Compression compression, bool quiet,
                   const volatile sig_atomic_t& stop);

}  // namespace gpupeak::tools
