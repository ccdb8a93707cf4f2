// What `run` says when the program has ended: the first screen, and facts that the screen leaves
// out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collector/log/run_record.h"
#include "tools/run/logs.h"
#include "tools/run/screen_ahead.h"

namespace gpupeak::tools {

/// Returns `largest_bytes` if a large process of the run is not known, else 0. `largest_bytes`:
/// resident memory of the run's largest process, which the kernel tells when the run has ended. The
/// process is known if a log, a process in `seen`, or the command itself (`known_bytes`) had nearly
/// as much.
uint64_t unseen_rss_bytes(uint64_t largest_bytes, uint64_t known_bytes,
                          const std::vector<RunLog>& logs, const collector::RunRecord& seen);
/// Adds the started process to `unrecorded` if it went on with a program that does not load the
/// library, as a wrapper does: the log has no end, though the process ended by itself and under
/// another name.
void note_last_program(const RunLog& log, const std::string& command, const std::string& name,
                       std::vector<collector::RunRecord::Unrecorded>& unrecorded);
void say_why_there_is_no_log(const std::string& program, const std::string& children,
                             const std::vector<collector::RunRecord::LeftRunning>& left);
void tell_of_logs(const std::vector<RunLog>& logs, const std::string& children, ScreenAhead* ahead);

}  // namespace gpupeak::tools
