// Names of code that the program made as it ran (JavaScript, Java, C#): no file has them, but many
// a runtime can write them for Linux perf into /tmp/perf-PID.map, a line for each piece of code, or
// into a jitdump (jit-PID.dump), also with lines. The log's addresses that lie in no module are
// looked for in both, and in what the program has registered for debuggers (GDB's JIT interface),
// which is in the log.
//
//   7f5dbafe4980 378 JS:~decodeFrame /srv/t.js:4:21   →  decodeFrame   /srv/t.js:4
#pragma once

#include <string>

#include "collector/log/definitions.h"
#include "collector/log/symbol_table.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

/// Adds the names of addresses without a module, as names of module 0. Leaves a file out if it is
/// no regular one, another user's, writable by all, larger than 256 MiB, or was not written while
/// the process ran: process ids are used again.
void read_code_names(const std::string& log, const gpupeak_file_header& header,
                     const gpupeak_counters_page& counters, const Definitions& definitions,
                     SymbolTable& symbols);

}  // namespace gpupeak::collector
