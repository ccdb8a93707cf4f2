#include "base/proc_file.h"

#include <sys/auxv.h>

#include "base/text.h"
#include "gpupeak/smaps.h"

namespace gpupeak::preload {

uint64_t next_number(const char*& text) {
  while (*text == ' ' || *text == '\t') ++text;
  uint64_t number = 0;
  for (; *text >= '0' && *text <= '9'; ++text)
    number = number * 10 + static_cast<uint64_t>(*text - '0');
  return number;
}

uint64_t kib_behind(const char* name, const char* text) {
  const char* const at = strstr(text, name);
  return at != nullptr ? number_at(at + strlen(name)) << 10 : 0;
}

size_t read_file(const char* path, char* to, size_t capacity) {
  const SignalsHeld held;  // a handler might leave by a jump, and leave the descriptor open
  const sys::Descriptor file(sys::open_to_read(path));
  size_t bytes = 0;
  while (file.is_open() && bytes < capacity) {
    const long got = sys::read(file.fd, to + bytes, capacity - bytes);
    if (got <= 0) break;
    bytes += static_cast<size_t>(got);
  }
  return bytes;
}

// Where it is inlined, g++ 12 for aarch64 warns that `found` may dangle.
__attribute__((noinline)) const char* mapping_at(uint64_t address, uint64_t& begin, char* text,
                                                 size_t capacity) {
  const char* found = nullptr;
  for_each_line("/proc/self/maps", text, capacity, [&](const char* line) {
    begin = smaps::hex_at(line);  // "begin-end rights offset …"
    const uint64_t behind = smaps::hex_at(++line);
    if (address >= begin && address < behind) found = line + sizeof " rwxs " - 1;
    return found != nullptr;
  });
  return found;
}

std::string_view program_file(char* to, size_t capacity) {
  uint64_t begin = 0;
  // The kernel tells where it put the loader, unless that is the program that it was to start.
  if (getauxval(AT_BASE) == 0) {
    const char* line = mapping_at(getauxval(AT_PHDR), begin, to, capacity);
    if (const char* path = line != nullptr ? strchr(line, '/') : nullptr) return path;
  }
  const long bytes = sys::readlink("/proc/self/exe", to, capacity - 1);
  if (bytes <= 0) return {};
  to[bytes] = 0;
  return {to, static_cast<size_t>(bytes)};
}

namespace {

/// A number of /proc/PID/stat, by its place in proc(5); 0: there is no such process.
uint64_t stat_field(int pid, int wanted) {
  const Text<64> path("/proc/", pid, "/stat");
  char text[1024];
  text[read_file(path.c_str(), text, sizeof text - 1)] = 0;
  const char* at = strrchr(text, ')');  // ends the name, which may have any characters
  if (at == nullptr) return 0;
  int field = 2;
  for (; *at != 0 && field < wanted; ++at) field += *at == ' ';
  return number_at(at);
}

}  // namespace

uint64_t process_start_time(int pid) {
  return stat_field(pid, 22);
}

char** initial_environment() {
  const auto* words = reinterpret_cast<uintptr_t*>(stat_field(sys::getpid(), 28));  // startstack
  if (words == nullptr || words[words[0] + 1] != 0) return nullptr;
  return reinterpret_cast<char**>(const_cast<uintptr_t*>(words + words[0] + 2));
}

ResidentStatus resident_status() {
  char text[2048];
  text[read_file("/proc/self/status", text, sizeof text - 1)] = 0;
  const auto bytes = [&](const char* name) { return kib_behind(name, text); };
  return {bytes("\nVmHWM:"),    bytes("\nVmRSS:"),        bytes("\nRssFile:"),
          bytes("\nRssShmem:"), bytes("\nHugetlbPages:"), strstr(text, "\nRssFile:") != nullptr};
}

int call_filters() {
  char text[2048];  // hooks may run on small stacks
  const size_t bytes = read_file("/proc/thread-self/status", text, sizeof text - 1);
  if (bytes == 0) return -1;
  text[bytes] = 0;
  const char* at = strstr(text, "\nSeccomp_filters:");
  if (at == nullptr) at = strstr(text, "\nSeccomp:");  // old kernels: whether there is any
  if (at == nullptr) return bytes < sizeof text - 1 ? 0 : -1;
  return static_cast<int>(number_at(strchr(at, ':') + 1));
}

}  // namespace gpupeak::preload
