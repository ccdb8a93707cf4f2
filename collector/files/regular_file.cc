#include "collector/files/regular_file.h"

#include <cerrno>

namespace gpupeak::collector {

Descriptor open_regular(const std::string& path, int flags, struct stat& status) {
  // Checked before opening, since opening a device may already do something; and after it, since
  // the file may have been replaced in between.
  if (stat(path.c_str(), &status) != 0) return Descriptor();
  errno = ENXIO;
  if (!S_ISREG(status.st_mode)) return Descriptor();
  Descriptor file(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file || fstat(file.get(), &status) != 0) return Descriptor();
  errno = ENXIO;
  if (!S_ISREG(status.st_mode)) return Descriptor();
  return file;
}

Descriptor open_regular(const std::string& path, int flags) {
  struct stat status {};
  return open_regular(path, flags, status);
}

std::optional<std::string> read_regular(const std::string& path, uint64_t most_bytes) {
  struct stat status {};
  const Descriptor file = open_regular(path, O_RDONLY, status);
  if (!file) return std::nullopt;
  errno = EFBIG;
  if (static_cast<uint64_t>(status.st_size) > most_bytes) return std::nullopt;
  // Files in /proc say that they have 0 bytes.
  std::string bytes(static_cast<size_t>(status.st_size) + 1, '\0');
  size_t got = 0;
  while (true) {
    const ssize_t more = read(file.get(), bytes.data() + got, bytes.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return std::nullopt;
    if (more == 0) break;
    got += static_cast<size_t>(more);
    errno = EFBIG;
    if (got > most_bytes) return std::nullopt;
    if (got == bytes.size()) bytes.resize(2 * bytes.size());
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace gpupeak::collector
