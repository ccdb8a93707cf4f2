// Lines about a run of several processes, and about what was not seen of it. The short summary, the
// report and the gates use them.
#pragma once

#include <string>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// "rank 1, pid 713 python3".
std::string process_text(const WholeRun::Process& process);

/// "still running: pid 713 redis-server, 40.0 MiB resident; …", and where its log can be read.
std::string still_running_text(const WholeRun::StillRunning& process, const TextStyle& style);

/// What is missing from the run's figures, a sentence each. Empty: as far as anybody looked, every
/// process was recorded to its end and without a loss.
std::vector<std::string> missing_from(const WholeRun& run, const TextStyle& style);

/// Whether a figure of GPUs may be less than what the run held.
bool lacks_device_memory(const WholeRun& run);

/// Resident bytes without a known cause, if they are 16 MiB or more and more than a fiftieth. 0:
/// they are less, or nobody looked.
uint64_t unexplained_resident_bytes(const Summary& summary);
/// Whether every process was recorded and nothing was lost, somebody looked for other processes,
/// and what was resident has known causes.
bool is_complete(const Summary& summary);

/// "killed for memory: cgroup limit 400 MiB"; empty: nobody was killed.
std::string memory_kill_text(const WholeRun& run, const TextStyle& style);

/// The verdict's sentence if several processes used GPUs: what they held at once. If none did: what
/// several processes had resident together. Else empty.
std::string peak_at_once_text(const WholeRun& run, const TextStyle& style);

/// A row for each process that used a GPU (if none did: for the largest processes), at most so
/// many; then the host's.
std::vector<std::string> process_rows(const WholeRun& run, size_t most, const TextStyle& style);

}  // namespace gpupeak::collector
