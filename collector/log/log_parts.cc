#include "collector/log/log_parts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "gpupeak/log_format.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kPage = GPUPEAK_LOG_PAGE;
constexpr size_t kCopyBytes = 1 << 20;

/// A log, opened to be copied or added to.
class LogFile {
 public:
  LogFile(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC)) {
    struct stat status {};
    is_log_ = fd_ >= 0 && fstat(fd_, &status) == 0 && read_at(0, header_) &&
              header_.magic == GPUPEAK_LOG_MAGIC && header_.version == GPUPEAK_LOG_VERSION &&
              read_at(header_.counters_offset, counters_);
    const auto size = static_cast<uint64_t>(status.st_size);
    // Behind what was written a process that could not end in order leaves a hole.
    bytes_ =
        counters_.file_bytes < header_.chunks_offset ? size : std::min(size, counters_.file_bytes);
    bytes_ = (bytes_ + kPage - 1) / kPage * kPage;
  }
  ~LogFile() {
    if (fd_ >= 0) close(fd_);
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  bool is_log() const { return is_log_; }
  int fd() const { return fd_; }
  uint64_t bytes() const { return bytes_; }
  const gpupeak_file_header& header() const { return header_; }

  bool set_end(uint64_t end) const {
    return ftruncate(fd_, static_cast<off_t>(end)) == 0 &&
           pwrite(fd_, &end, sizeof end,
                  static_cast<off_t>(header_.counters_offset +
                                     offsetof(gpupeak_counters_page, file_bytes))) == sizeof end;
  }

 private:
  template <class T>
  bool read_at(uint64_t offset, T& value) const {
    return pread(fd_, &value, sizeof value, static_cast<off_t>(offset)) == sizeof value;
  }

  int fd_;
  bool is_log_ = false;
  uint64_t bytes_ = 0;
  gpupeak_file_header header_{};
  gpupeak_counters_page counters_{};
};

bool write_all(int fd, const char* bytes, size_t size, uint64_t offset) {
  for (size_t done = 0; done < size;) {
    const ssize_t written =
        pwrite(fd, bytes + done, size - done, static_cast<off_t>(offset + done));
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

bool copy(const LogFile& from, const LogFile& to, uint64_t offset) {
  std::vector<char> buffer(kCopyBytes);
  for (uint64_t done = 0; done < from.bytes();) {
    const size_t step = std::min<uint64_t>(kCopyBytes, from.bytes() - done);
    const ssize_t got = pread(from.fd(), buffer.data(), step, static_cast<off_t>(done));
    if (got <= 0) return got == 0;  // the last page's rest, which is zeros
    if (!write_all(to.fd(), buffer.data(), static_cast<size_t>(got), offset + done)) return false;
    done += static_cast<uint64_t>(got);
  }
  return true;
}

bool write_chunk_page(const LogFile& to, const LogFile& part, uint64_t offset,
                      std::string_view program) {
  std::array<char, kPage> page{};
  gpupeak_chunk_header header{};
  header.magic = GPUPEAK_CHUNK_MAGIC;
  header.bytes = static_cast<uint32_t>(kPage + part.bytes());
  header.check = to.header().cookie ^ offset;
  header.kind = GPUPEAK_CHUNK_PART;
  header.start_ticks = to.header().start_ticks;
  header.start_monotonic_ns = to.header().start_monotonic_ns;
  gpupeak_log_part about{};
  about.bytes = part.bytes();
  memcpy(about.program, program.data(), std::min(program.size(), sizeof about.program - 1));
  memcpy(page.data(), &header, sizeof header);
  memcpy(page.data() + sizeof header, &about, sizeof about);
  return write_all(to.fd(), page.data(), page.size(), offset);
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
  const LogFile to(log, O_RDWR), from(part, O_RDONLY);
  if (!to.is_log() || !from.is_log()) return false;
  const uint64_t begin = to.bytes();
  if (from.bytes() > std::numeric_limits<uint32_t>::max() - kPage) return false;
  // The chunk's own page last, and the end after it: a part is whole or not there.
  if (ftruncate(to.fd(), static_cast<off_t>(begin)) == 0 &&
      ftruncate(to.fd(), static_cast<off_t>(begin + kPage + from.bytes())) == 0 &&
      copy(from, to, begin + kPage) && write_chunk_page(to, from, begin, program) &&
      to.set_end(begin + kPage + from.bytes())) {
    return true;
  }
  to.set_end(begin);
  return false;
}

}  // namespace gpupeak::collector
