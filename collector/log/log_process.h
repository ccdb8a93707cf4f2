// The process of a log: whether it runs still. By its header alone, so that it can be asked often.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collector/log/log_head.h"

namespace gpupeak::collector {

enum class LogState {
  kRunning,
  kEnded,
  kKilled,     ///< gone without an end
  kElsewhere,  ///< without an end so far, on another machine or in another container
};
inline constexpr const char* kLogStates[] = {"running", "ended", "killed", "elsewhere"};

LogState state_of(const gpupeak_file_header& header, const gpupeak_counters_page& counters);
inline LogState state_of(const LogHead& head) {
  return state_of(head.header, head.counters);
}

/// Since boot, in clock ticks, as a log's header has it; 0 if there is no such process, or nobody
/// has waited for its end yet. `folder`: /proc/PID.
uint64_t process_start_time(const std::string& folder);

/// Whether the program ran before its log began.
inline bool is_of_attached(const gpupeak_file_header& header) {
  return (header.flags & GPUPEAK_FLAG_ATTACHED) != 0;
}

/// Whether a process runs as this log's, or may run where its process id means nothing here.
bool may_be_running(const gpupeak_file_header& header, const gpupeak_counters_page& counters);

/// Whether a process of the machine and boot of this log's still runs; so where nobody can tell.
bool may_be_running(const gpupeak_file_header& beside, uint32_t pid, uint64_t start_time);

/// What it has resident now; none: it has gone, or is of another machine.
std::optional<uint64_t> resident_bytes(const gpupeak_file_header& beside, uint32_t pid,
                                       uint64_t start_time);
/// The same of a process of this machine.
std::optional<uint64_t> resident_bytes(uint32_t pid, uint64_t start_time);

}  // namespace gpupeak::collector
