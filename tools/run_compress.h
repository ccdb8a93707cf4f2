// Compresses what a run has left, in its place: the log keeps its name, and every verb reads it.
// Used by `run` when there is nothing else left to do and to say.
#pragma once

#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include "run_logs.h"

namespace gpupeak::tools {

/// At most.
inline constexpr size_t kCompressionThreads = 4;

enum class Compression { kAuto, kAlways, kNever };
/// "auto", "always" or "never".
Compression compression(const std::string& name);

/// Leaves alone what is still being written and, with kAuto, what is small. Where `stop` becomes
/// true, there is no room, or anything else goes wrong, the log stays as it was. The summary of the
/// first one is made meanwhile, where there are processors for it.
void compress_logs(const std::vector<RunLog>& logs, Compression compression, bool quiet,
                   const volatile sig_atomic_t& stop);

}  // namespace gpupeak::tools
