// Lines about a run of several processes, and about what was not seen of it: the short summary, the
// report and gates share them.
#pragma once

#include <string>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// "rank 1, pid 713 python3".
std::string process_text(const WholeRun::Process& process);

/// "still running: pid 713 redis-server, 40.0 MiB resident; …", and where its log is read.
std::string still_running_text(const WholeRun::StillRunning& process, const TextStyle& style);

/// What is missing from the run's figures, a sentence each; empty: every process was recorded, to
/// its end and without a loss, as far as anybody looked.
std::vector<std::string> missing_from(const WholeRun& run, const TextStyle& style);

/// Whether a figure of GPUs may be less than what the run held.
bool lacks_device_memory(const WholeRun& run);

/// What was resident and has no known cause, where that is more than a fiftieth; 0: it has, or
/// nobody looked.
uint64_t unexplained_resident_bytes(const Summary& summary);
/// Every process was recorded and nothing of it was lost, and somebody looked for others.
bool is_complete(const Summary& summary);

/// "killed for memory: cgroup limit 400 MiB"; empty: nobody was.
std::string memory_kill_text(const WholeRun& run, const TextStyle& style);

/// The first sentence, of several processes that used GPUs: what they held at once. Empty: one did,
/// or none.
std::string peak_at_once_text(const WholeRun& run, const TextStyle& style);

/// A row a process that used a GPU, at most so many, then the host's.
std::vector<std::string> process_rows(const WholeRun& run, size_t most, const TextStyle& style);

}  // namespace gpupeak::collector
