#include "collector/log/log_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "collector/log/log_tail.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kPage = GPUPEAK_LOG_PAGE;
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
  std::array<char, kPage> page{};
  const gpupeak_chunk_header header = to.chunk(GPUPEAK_CHUNK_PART, offset, kPage + part.bytes());
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
  if (from.bytes() > std::numeric_limits<uint32_t>::max() - kPage) return false;
  // The chunk's first page is written after the content, and the end after that: a part is whole or
  // not there.
  if (to.grow(kPage + from.bytes()) && copy(from, to, begin + kPage) &&
      write_chunk_page(to, from, begin, program) && to.set_end(begin + kPage + from.bytes())) {
    return true;
  }
  to.set_end(begin);
  return false;
}

}  // namespace gpupeak::collector
