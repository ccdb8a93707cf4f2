#include "base/proc_file.h"

#include <fcntl.h>

#include <cstring>

#include "base/syscalls.h"
#include "base/text.h"

namespace gpupeak::preload {

size_t read_file(const char* path, char* to, size_t capacity) {
  const long fd = sys::open(path, O_RDONLY | O_CLOEXEC, 0);
  if (sys::failed(fd)) return 0;
  size_t bytes = 0;
  while (bytes < capacity) {
    const long got = sys::read(static_cast<int>(fd), to + bytes, capacity - bytes);
    if (got <= 0) break;
    bytes += static_cast<size_t>(got);
  }
  sys::close(static_cast<int>(fd));
  return bytes;
}

uint64_t process_start_time(int pid) {
  Text<64> path;
  path.add("/proc/").add(static_cast<uint64_t>(pid)).add("/stat");
  char text[1024];
  text[read_file(path.c_str(), text, sizeof text - 1)] = 0;
  const char* at = strrchr(text, ')');  // ends the name, which may hold anything
  if (at == nullptr) return 0;
  int field = 2;
  uint64_t value = 0;
  for (; *at != 0 && field < 22; ++at) field += *at == ' ';
  for (; *at >= '0' && *at <= '9'; ++at) value = value * 10 + static_cast<uint64_t>(*at - '0');
  return value;
}

}  // namespace gpupeak::preload
