// Says whether the process of a log still runs. It needs the header and the counters page alone, so
// it can be asked often.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collector/log/log_head.h"

namespace gpupeak::collector {

enum class LogState {
  kRunning,
  kEnded,
  kKilled,     ///< gone, and its log has no end
  kElsewhere,  ///< its log has no end so far; it ran on another machine or in another container
};
inline constexpr const char* kLogStates[] = {"running", "ended", "killed", "elsewhere"};

/// The state of the log's process now.
LogState state_of(const gpupeak_file_header& header, const gpupeak_counters_page& counters);
inline LogState state_of(const LogHead& head) {
  return state_of(head.header, head.counters);
}

/// When the process began: the kernel's clock ticks since boot, as a log's header has it. 0 if
/// there is no such process, or it has ended and nobody has waited for it yet. `folder`: /proc/PID.
uint64_t process_start_time(const std::string& folder);

/// Whether the program ran before its log began.
inline bool is_of_attached(const gpupeak_file_header& header) {
  return (header.flags & GPUPEAK_FLAG_ATTACHED) != 0;
}

/// Whether the log's process runs. Where its process id means nothing on this machine: whether the
/// log has no end.
bool may_be_running(const gpupeak_file_header& header, const gpupeak_counters_page& counters);

/// Whether a process still runs that ran where the log `beside` was made. True where nobody can
/// tell.
bool may_be_running(const gpupeak_file_header& beside, uint32_t pid, uint64_t start_time);

/// The process's resident memory now. None: it has gone, or it is of another machine.
std::optional<uint64_t> resident_bytes(const gpupeak_file_header& beside, uint32_t pid,
                                       uint64_t start_time);
/// The same for a process of this machine.
std::optional<uint64_t> resident_bytes(uint32_t pid, uint64_t start_time);

}  // namespace gpupeak::collector
