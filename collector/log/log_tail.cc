#include "collector/log/log_tail.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "collector/files/regular_file.h"
#include "gpupeak/memory_kinds.h"

namespace gpupeak::collector {

LogTail::LogTail(const std::string& path, int flags)
    : file_(open_regular(path, flags | O_NOFOLLOW, status_)) {
  is_log_ = file_ && read_at(0, header_) && header_.magic == GPUPEAK_LOG_MAGIC &&
            header_.version == GPUPEAK_LOG_VERSION &&
            read_at(header_.counters_offset, counters_, counters_bytes(header_));
  const auto size = static_cast<uint64_t>(status_.st_size);
  bytes_ =
      counters_.file_bytes < header_.chunks_offset ? size : std::min(size, counters_.file_bytes);
  bytes_ = (bytes_ + GPUPEAK_LOG_PAGE - 1) / GPUPEAK_LOG_PAGE * GPUPEAK_LOG_PAGE;
}

template <class T>
bool LogTail::read_at(uint64_t offset, T& value, size_t bytes) const {
  return pread(fd(), &value, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

bool LogTail::write(const void* bytes, size_t size, uint64_t offset) const {
  const auto* from = static_cast<const char*>(bytes);
  for (size_t done = 0; done < size;) {
    const ssize_t written =
        pwrite(fd(), from + done, size - done, static_cast<off_t>(offset + done));
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
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

bool LogTail::set_end(uint64_t end) const {
  return ftruncate(fd(), static_cast<off_t>(end)) == 0 &&
         write(&end, sizeof end,
               header_.counters_offset + offsetof(gpupeak_counters_page, file_bytes));
}

}  // namespace gpupeak::collector
