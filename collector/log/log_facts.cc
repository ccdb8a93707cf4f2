#include "collector/log/log_facts.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "collector/files/regular_file.h"
#include "collector/text/file_name.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kLargestDefinitions = 1 << 20;

class Chunks {
 public:
  Chunks(const std::string& path, const LogHead& head)
      : file_(open_regular(path)),
        cookie_(head.header.cookie),
        begin_(head.header.chunks_offset),
        end_(std::min(head.bytes, head.counters.file_bytes)) {}

  /// The chunks of definitions, by their sequence numbers. Empty for a packed log.
  std::map<uint64_t, std::vector<uint8_t>> definitions() {
    std::map<uint64_t, std::vector<uint8_t>> found;
    uint64_t magic = 0;
    if (!read(0, &magic, sizeof magic) || magic != GPUPEAK_LOG_MAGIC) return found;
    gpupeak_chunk_header chunk;
    for (uint64_t offset = begin_; offset + sizeof chunk <= end_;) {
      if (!read(offset, &chunk, sizeof chunk)) break;
      if (!is_chunk(chunk, offset)) {
        offset += GPUPEAK_LOG_PAGE;
        continue;
      }
      if (chunk.kind == GPUPEAK_CHUNK_DEFINITIONS && chunk.bytes <= kLargestDefinitions) {
        std::vector<uint8_t> body(chunk.bytes - sizeof chunk);
        if (read(offset + sizeof chunk, body.data(), body.size()))
          found.emplace(chunk.sequence, std::move(body));
      }
      offset += chunk.bytes;
    }
    return found;
  }

 private:
  bool is_chunk(const gpupeak_chunk_header& chunk, uint64_t offset) const {
    return chunk.magic == GPUPEAK_CHUNK_MAGIC && chunk.check == (cookie_ ^ offset) &&
           chunk.bytes >= GPUPEAK_LOG_PAGE && chunk.bytes % GPUPEAK_LOG_PAGE == 0;
  }
  bool read(uint64_t offset, void* to, size_t bytes) {
    return file_ &&
           pread(file_.get(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }

  const Descriptor file_;
  const uint64_t cookie_, begin_, end_;
};

}  // namespace

LogFacts read_facts(const std::string& path, const LogHead& head) {
  Definitions definitions;
  uint64_t expected = 0;
  for (const auto& [sequence, body] : Chunks(path, head).definitions()) {
    if (sequence != expected++ || !definitions.read(body.data(), body.data() + body.size())) break;
  }
  LogFacts facts;
  facts.program = file_name(definitions.fact("exe"));
  facts.host = definitions.fact("host");
  facts.devices = definitions.devices();
  return facts;
}

}  // namespace gpupeak::collector
