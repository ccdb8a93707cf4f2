// Whether this process records, and since when. docs/design.md, "Which processes record".
#pragma once

#include <cstdint>

namespace gpupeak::preload {

enum class HostMode : uint32_t { kOff = 0, kCounters = 1, kSampled = 2, kFull = 3 };

/// One page that the kernel wipes in a forked child (MADV_WIPEONFORK): a child that never ran our
/// fork handlers still finds `recording` 0 and writes nothing into its parent's log.
struct ProcessPage {
  uint32_t recording;      ///< 1: hooks log
  uint32_t host_recording; ///< 1: malloc and mmap hooks log too
  HostMode host_mode;
  uint32_t several_threads; ///< more than one slot is in use: every event is stamped
  uint64_t generation;      ///< of this process's log; see ThreadFlags
};
extern ProcessPage* g_process;  ///< never null: points to a zeroed static page at first

inline bool recording() { return __builtin_expect(g_process->recording, 1); }
inline bool host_recording() { return __builtin_expect(g_process->host_recording, 1); }

/// Opens the log if this is a process that records from its start. Called by every hook until it has
/// been decided; cheap afterwards.
void ensure_started();

/// The process is about to use CUDA: opens its log if GPUPEAK_CHILDREN allows and it is not open yet.
/// Called by the first CUDA hook of a process (cuInit or any other). True if recording.
bool ensure_started_for_cuda();

}  // namespace gpupeak::preload
