#include "collector/log/log_head.h"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <span>
#include <vector>

#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

bool is_known(const gpupeak_file_header& header) {
  return header.magic == GPUPEAK_LOG_MAGIC && header.version == GPUPEAK_LOG_VERSION;
}

[[noreturn]] void fail(const std::string& path) {
  throw LogError(escape(path) + " is no log of this version", 0);
}

bool begins_as_packed(const std::string& path) {
  uint8_t magic[sizeof(uint32_t)] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(magic), sizeof magic);
  return file && is_packed(magic);
}

}  // namespace

LogHead read_head(const std::string& path) {
  LogHead head;
  std::ifstream file(path, std::ios::binary);
  const auto read = [&file](uint64_t offset, auto& value) {
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(reinterpret_cast<char*>(&value), sizeof value);
  };
  read(0, head.header);
  const bool known = file && is_known(head.header);
  if (known) read(head.header.counters_offset, head.counters);
  struct stat status {};
  if (!known || !file || stat(path.c_str(), &status) != 0) fail(path);
  head.bytes = static_cast<uint64_t>(status.st_size);
  return head;
}

LogHead read_any_head(const std::string& path) {
  if (!begins_as_packed(path)) return read_head(path);
  const MappedFile file(path);
  constexpr size_t kFront = 2 * GPUPEAK_LOG_PAGE;
  const std::vector<uint8_t> front = unpack_front({file.data(), file.bytes()}, path, kFront);
  LogHead head;
  if (front.size() < kFront) fail(path);
  memcpy(&head.header, front.data(), sizeof head.header);
  if (!is_known(head.header) || head.header.counters_offset > kFront - sizeof head.counters)
    fail(path);
  memcpy(&head.counters, front.data() + head.header.counters_offset, sizeof head.counters);
  head.bytes = file.bytes();
  return head;
}

}  // namespace gpupeak::collector
