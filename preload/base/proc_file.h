// Small files of /proc, read whole. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/signals_held.h"
#include "base/syscalls.h"

namespace gpupeak::preload {

/// Reads at most `capacity` bytes of a file; 0 if it cannot be opened.
size_t read_file(const char* path, char* to, size_t capacity);

/// Calls `visit(line)` for each line of a file, cut to what fits, until it returns true. False: the
/// file cannot be opened. `buffer`: room to read in; the line is in it.
template <typename Visit>
bool for_each_line(const char* path, char* buffer, size_t capacity, Visit visit) {
  const SignalsHeld held;  // a handler might leave by a jump, and leave the descriptor open
  const sys::Descriptor file(sys::open_to_read(path));
  if (!file.is_open()) return false;
  size_t bytes = 0;
  bool cut = false;  // the rest of a line that did not fit comes
  for (;;) {
    const long got = sys::read(file.fd, buffer + bytes, capacity - 1 - bytes);
    if (got <= 0) return true;
    bytes += static_cast<size_t>(got);
    buffer[bytes] = 0;
    char* line = buffer;
    for (char* end; (end = strchr(line, '\n')) != nullptr; line = end + 1) {
      *end = 0;
      if (!cut && visit(line)) return true;
      cut = false;
    }
    bytes -= static_cast<size_t>(line - buffer);
    if (bytes == capacity - 1) {
      if (!cut && visit(line)) return true;
      cut = true;
      bytes = 0;
    }
    memmove(buffer, line, bytes);
  }
}

/// The decimal number at the beginning of a text, which moves behind it; spaces before it are
/// skipped.
uint64_t next_number(const char*& text);
inline uint64_t number_at(const char* text) {
  return next_number(text);
}

/// The figure behind `name` in a file of lines such as "VmRSS:  123 kB", in bytes; 0: not there.
uint64_t kib_behind(const char* name, const char* text);

/// What /proc/self/maps says of an address: "offset device inode path", and where that mapping
/// begins. nullptr: nothing is mapped there. `text` is room to read in, a page or more.
const char* mapping_at(uint64_t address, uint64_t& begin, char* text, size_t capacity);

/// The path of the program's file, also where the loader was started with it ("ld-linux… ./prog")
/// and is what /proc/self/exe leads to. Empty: not known. `to` is a page or more.
std::string_view program_file(char* to, size_t capacity);

/// When the process began, in clock ticks since boot. With its pid this names one process for good.
/// 0: there is no such process.
uint64_t process_start_time(int pid);

/// The environment where the kernel puts it, behind the arguments at the beginning of the stack.
/// nullptr: the kernel does not say where that is.
char** initial_environment();

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
