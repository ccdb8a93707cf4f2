#include "collector/log/log_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "gpupeak/memory_kinds.h"

namespace gpupeak::collector {

bool parse_front(std::span<const uint8_t> front, gpupeak_file_header& header,
                 gpupeak_counters_page& counters) {
  if (front.size() < sizeof header) return false;
  memcpy(&header, front.data(), sizeof header);
  const size_t bytes = counters_bytes(header);
  if (header.magic != GPUPEAK_LOG_MAGIC || header.version != GPUPEAK_LOG_VERSION ||
      front.size() < bytes || header.counters_offset > front.size() - bytes)
    return false;
  memcpy(&counters, front.data() + header.counters_offset, bytes);
  return true;
}

LogTail::LogTail(const std::string& path, int flags)
    : file_(open_regular(path, flags | O_NOFOLLOW, status_)) {
  std::array<uint8_t, GPUPEAK_LOG_PAGE + GPUPEAK_COUNTERS_BYTES> front{};
  const ssize_t got = file_ ? pread(fd(), front.data(), front.size(), 0) : -1;
  is_log_ =
      got > 0 && parse_front(std::span(front).first(static_cast<size_t>(got)), header_, counters_);
  const auto size = static_cast<uint64_t>(status_.st_size);
  bytes_ =
      counters_.file_bytes < header_.chunks_offset ? size : std::min(size, counters_.file_bytes);
  bytes_ = (bytes_ + GPUPEAK_LOG_PAGE - 1) / GPUPEAK_LOG_PAGE * GPUPEAK_LOG_PAGE;
}

bool LogTail::grow(uint64_t bytes) const {
  return ftruncate(fd(), static_cast<off_t>(bytes_)) == 0 &&
         ftruncate(fd(), static_cast<off_t>(bytes_ + bytes)) == 0;
}

gpupeak_chunk_header LogTail::chunk(uint32_t kind, uint64_t offset, uint64_t bytes) const {
  gpupeak_chunk_header header{};
  header.magic = GPUPEAK_CHUNK_MAGIC;
  header.bytes = static_cast<uint32_t>(bytes);
  header.check = header_.cookie ^ offset;
  header.kind = kind;
  header.start_ticks = header_.start_ticks;
  header.start_monotonic_ns = header_.start_monotonic_ns;
  return header;
}

uint64_t LogTail::append(uint32_t kind, std::string_view content) const {
  const uint64_t whole = (sizeof(gpupeak_chunk_header) + content.size() + GPUPEAK_LOG_PAGE - 1) /
                         GPUPEAK_LOG_PAGE * GPUPEAK_LOG_PAGE;
  const gpupeak_chunk_header header = chunk(kind, bytes_, whole);
  // The header is written after the content: the chunk is whole or not there.
  if (grow(whole) && write(content.data(), content.size(), bytes_ + sizeof header) &&
      write(&header, sizeof header, bytes_) && set_end(bytes_ + whole))
    return bytes_;
  set_end(bytes_);
  return 0;
}

bool LogTail::set_end(uint64_t end) const {
  return ftruncate(fd(), static_cast<off_t>(end)) == 0 &&
         write(&end, sizeof end,
               header_.counters_offset + offsetof(gpupeak_counters_page, file_bytes));
}

namespace {

constexpr uint64_t kChunkPage = GPUPEAK_LOG_PAGE;
constexpr size_t kCopyBytes = 1 << 20;

bool copy(const LogTail& from, const LogTail& to, uint64_t offset) {
  std::vector<char> buffer(kCopyBytes);
  for (uint64_t done = 0; done < from.bytes();) {
    const size_t step = std::min<uint64_t>(kCopyBytes, from.bytes() - done);
    const ssize_t got = pread(from.fd(), buffer.data(), step, static_cast<off_t>(done));
    if (got <= 0) return got == 0;  // the rest of the last page stays zeros
    if (!to.write(buffer.data(), static_cast<size_t>(got), offset + done)) return false;
    done += static_cast<uint64_t>(got);
  }
  return true;
}

bool write_chunk_page(const LogTail& to, const LogTail& part, uint64_t offset,
                      std::string_view program) {
  std::array<char, kChunkPage> page{};
  const gpupeak_chunk_header header =
      to.chunk(GPUPEAK_CHUNK_PART, offset, kChunkPage + part.bytes());
  gpupeak_log_part about{};
  about.bytes = part.bytes();
  memcpy(about.program, program.data(), std::min(program.size(), sizeof about.program - 1));
  memcpy(page.data(), &header, sizeof header);
  memcpy(page.data() + sizeof header, &about, sizeof about);
  return to.write(page.data(), page.size(), offset);
}

}  // namespace

PartName part_name(const std::string& path) {
  constexpr size_t kMostDigits = 6;
  const size_t mark = path.rfind('#');
  const std::string digits = mark == std::string::npos ? "" : path.substr(mark + 1);
  if (digits.empty() || digits.size() > kMostDigits || digits[0] == '0' ||
      digits.find_first_not_of("0123456789") != std::string::npos ||
      access(path.c_str(), F_OK) == 0) {
    return {path, 0};
  }
  return {path.substr(0, mark), std::stoul(digits)};
}

bool add_part(const std::string& log, const std::string& part, std::string_view program) {
  const LogTail to(log, O_RDWR), from(part, O_RDONLY);
  if (!to.is_log() || !from.is_log() || to.owner() != from.owner() ||
      to.header().run_id != from.header().run_id)
    return false;
  const uint64_t begin = to.bytes();
  if (from.bytes() > std::numeric_limits<uint32_t>::max() - kChunkPage) return false;
  // The chunk's first page is written after the content, and the end after that: a part is whole or
  // not there.
  if (to.grow(kChunkPage + from.bytes()) && copy(from, to, begin + kChunkPage) &&
      write_chunk_page(to, from, begin, program) && to.set_end(begin + kChunkPage + from.bytes())) {
    return true;
  }
  to.set_end(begin);
  return false;
}

}  // namespace gpupeak::collector
