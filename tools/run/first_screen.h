// The first screen: the lines that a run ends with. `run`, `report --short` and `top` show it.
//
// in    a log
// out   "peak 5.10 GiB of 22.0 GiB on GPU 0 at +3.20 s, in step", who held it, what to do next
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/log/run_record.h"
#include "collector/rules/rule_book.h"
#include "collector/text/text_format.h"
#include "tools/run/logs.h"
#include "tools/shared/child.h"

namespace gpupeak::tools {

/// How the first screen reads a log.
collector::Options screen_options(const collector::Reading& reading);

/// Begins to read names while the program runs, until it is told the path of the log. `find`: the
/// path of the run's log; empty: there is none yet. To be called while this process has only one
/// thread.
Helper read_names_ahead(const std::function<std::string()>& find,
                        const collector::TextStyle& style);

/// Complete, however long it takes; after a second a line on standard error says what is being
/// read. A process of its own reads the names of functions: if it dies of a damaged file, there are
/// no names. If the log cannot be read, the lines are what the library itself has counted. `ahead`:
/// has read names while the program ran, and was told the log's path. Throws LogError.
std::string first_screen(const std::string& log, const collector::Reading& reading,
                         const collector::TextStyle& style, Helper ahead = {});

// What `run` says when the program has ended: the first screen, and facts that the screen leaves
// out.

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
void tell_of_logs(const std::vector<RunLog>& logs, const std::string& children, Helper ahead);

}  // namespace gpupeak::tools
