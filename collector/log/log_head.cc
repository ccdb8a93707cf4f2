#include "collector/log/log_head.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <vector>

#include "collector/files/regular_file.h"
#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "gpupeak/memory_kinds.h"

namespace gpupeak::collector {
namespace {

bool is_known(const gpupeak_file_header& header) {
  return header.magic == GPUPEAK_LOG_MAGIC && header.version == GPUPEAK_LOG_VERSION;
}

[[noreturn]] void fail(const std::string& path) {
  throw LogError(escape(path) + " is no log of this version", 0);
}

bool begins_as_packed(const std::string& path, uid_t& owner) {
  uint8_t magic[sizeof(uint32_t)] = {};
  struct stat status {};
  const Descriptor file = open_regular(path, O_RDONLY, status);
  owner = status.st_uid;
  return file && pread(file.get(), magic, sizeof magic, 0) == sizeof magic && is_packed(magic);
}

}  // namespace

LogHead read_head(const std::string& path) {
  LogHead head;
  struct stat status {};
  const Descriptor file = open_regular(path, O_RDONLY, status);
  const auto read = [&file](uint64_t offset, auto& value, size_t bytes) {
    return pread(file.get(), &value, bytes, static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(bytes);
  };
  if (!file || !read(0, head.header, sizeof head.header) || !is_known(head.header) ||
      !read(head.header.counters_offset, head.counters, counters_bytes(head.header)))
    fail(path);
  head.bytes = static_cast<uint64_t>(status.st_size);
  head.owner = status.st_uid;
  return head;
}

LogHead read_any_head(const std::string& path) {
  uid_t owner = 0;
  if (!begins_as_packed(path, owner)) return read_head(path);
  const MappedFile file(path);
  constexpr size_t kFront = GPUPEAK_LOG_PAGE + GPUPEAK_COUNTERS_BYTES;
  const std::vector<uint8_t> front = unpack_front({file.data(), file.bytes()}, path, kFront);
  LogHead head;
  if (front.size() < sizeof head.header) fail(path);
  memcpy(&head.header, front.data(), sizeof head.header);
  const size_t bytes = counters_bytes(head.header);
  if (!is_known(head.header) || front.size() < bytes ||
      head.header.counters_offset > front.size() - bytes)
    fail(path);
  memcpy(&head.counters, front.data() + head.header.counters_offset, bytes);
  file.require_whole();
  head.bytes = file.bytes();
  head.owner = owner;
  return head;
}

}  // namespace gpupeak::collector
