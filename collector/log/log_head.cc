#include "collector/log/log_head.h"

#include <sys/stat.h>

#include <fstream>

#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {

LogHead read_head(const std::string& path) {
  LogHead head;
  std::ifstream file(path, std::ios::binary);
  const auto read = [&file](uint64_t offset, auto& value) {
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(reinterpret_cast<char*>(&value), sizeof value);
  };
  read(0, head.header);
  const bool known =
      file && head.header.magic == GPUPEAK_LOG_MAGIC && head.header.version == GPUPEAK_LOG_VERSION;
  if (known) read(head.header.counters_offset, head.counters);
  struct stat status {};
  if (!known || !file || stat(path.c_str(), &status) != 0)
    throw LogError(escape(path) + " is no log of this version", 0);
  head.bytes = static_cast<uint64_t>(status.st_size);
  return head;
}

}  // namespace gpupeak::collector
