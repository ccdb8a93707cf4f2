// Begins and ends the recording of the heap of a program that has the library already and only
// counts: `run --dormant`, GPUPEAK_HOST=counters, `attach --host counters`.
#pragma once

#include <cstdint>
#include <string>

namespace gpupeak::tools {

/// Whether `attach` or `detach` of the target, a process id or a log, means its heap alone: always
/// with --heap, else where the library was there from the start.
bool is_window(const std::string& target, bool heap_alone);

/// Begins it, recording as `host_mode` (GPUPEAK_HOST_…) says, or ends it. Returns the exit code
/// once the program has seen it. Throws UsageError, also if that takes longer than `seconds`.
int begin_window(const std::string& target, uint64_t host_mode, double seconds);
int end_window(const std::string& target, double seconds);

}  // namespace gpupeak::tools
