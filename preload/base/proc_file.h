// Small files of /proc, read whole. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

/// Reads at most `capacity` bytes of a file; 0 if it cannot be opened.
size_t read_file(const char* path, char* to, size_t capacity);

/// The decimal number at the beginning of a text; spaces before it are skipped.
uint64_t number_at(const char* text);

/// When the process began, in clock ticks since boot. With its pid this names one process for good.
/// 0: there is no such process.
uint64_t process_start_time(int pid);

/// This process's resident memory in bytes, by /proc/self/status; 0: not known.
struct ResidentStatus {
  uint64_t peak;  ///< the most that was resident at once since the last exec
  uint64_t resident, files, shared;
  uint64_t huge_pages;   ///< not a part of `resident`
  bool knows_its_pages;  ///< whether the kernel tells files and shared memory apart (Linux 4.5)
};
/// Takes 2 KiB of stack.
ResidentStatus resident_status();

/// How many filters of system calls the calling thread has; -1: not known, perhaps because a filter
/// forbids to ask. Takes 2 KiB of stack.
int call_filters();

}  // namespace gpupeak::preload
