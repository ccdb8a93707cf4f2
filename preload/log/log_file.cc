#include "log/log_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>

#include "base/clock.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/spinlock.h"
#include "base/syscalls.h"
#include "log/log.h"
#include "log/log_place.h"

namespace gpupeak::preload {
namespace {

// Growth of the file, and one mapping: as much again as there is, so that a short program's log is
// short.
constexpr size_t kSmallestSegmentBytes = 64 << 10;
constexpr size_t kLargestSegmentBytes = 1 << 20;
constexpr size_t kWarmedBytes = 64 << 10;  // at a time, and of the smallest chunk that is warmed

struct LogFile {
  SpinLock lock;
  Path path;
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t cookie = 0;
  uint64_t bytes = 0;  ///< allocated in the file
  uint8_t* segment = nullptr;
  uint64_t segment_offset = 0;  ///< in the file, of `segment`
  size_t segment_used = 0;
  size_t segment_bytes = 0;
  bool broken = false;
};

constinit LogFile g_file;
/// Growing past RLIMIT_FSIZE would send the program SIGXFSZ.
bool within_file_size_limit(uint64_t bytes) {
  rlimit limit{};
  if (sys::failed(
          sys::call6(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, reinterpret_cast<long>(&limit), 0, 0))) {
    return true;
  }
  return limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

/// Real blocks for [from, to) of the file, so that a full disk is an error here and never a SIGBUS
/// later.
long allocate(int fd, uint64_t from, uint64_t to) {
  if (!within_file_size_limit(to)) return -EFBIG;
  const long result =
      sys::fallocate(fd, 0, static_cast<int64_t>(from), static_cast<int64_t>(to - from));
  if (result != -EOPNOTSUPP && result != -ENOSYS) return result;
  static const uint8_t zeros[GPUPEAK_LOG_PAGE] = {};
  for (uint64_t at = from; at < to; at += sizeof zeros) {
    const long written = sys::pwrite(fd, zeros, sizeof zeros, static_cast<int64_t>(at));
    if (sys::failed(written)) return written;
    if (written != static_cast<long>(sizeof zeros)) return -ENOSPC;
  }
  return 0;
}

/// The log opened anew, if it is still the file that we made. `bytes`: how long it is.
long reopen(uint64_t& bytes) {
  const long fd = sys::open(g_file.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
  if (sys::failed(fd)) return fd;
  struct stat status;
  if (sys::failed(sys::fstat(static_cast<int>(fd), &status)) || status.st_dev != g_file.device ||
      status.st_ino != g_file.inode) {
    sys::close(static_cast<int>(fd));
    return -ENOENT;
  }
  bytes = static_cast<uint64_t>(status.st_size);
  return fd;
}

/// Whether there is something at the offset of the file. Asked before a first look through a
/// mapping, which would bring page after page into memory, one by one. Where the file system cannot
/// say, there may be.
bool has_data(int fd, uint64_t offset) {
  constexpr int kSeekData = 3;
  const long found = sys::call6(SYS_lseek, fd, static_cast<long>(offset), kSeekData, 0, 0, 0);
  return found == static_cast<long>(offset) || (sys::failed(found) && found != -ENXIO);
}

/// How many bytes at the segment's begin somebody else has taken: chunks that were appended from
/// outside between our look at the file's length and its growth, which ends such appending here.
size_t taken_bytes(const uint8_t* segment, size_t bytes) {
  size_t taken = 0;
  while (taken < bytes) {
    const auto* header = reinterpret_cast<const gpupeak_chunk_header*>(segment + taken);
    if (header->bytes == 0) break;
    taken += GPUPEAK_LOG_PAGE;  // all that are appended are of one page
  }
  return taken;
}

/// A next segment, of `wanted` bytes at least if the disk has them; or false. Holds the lock.
bool extend(size_t wanted) {
  uint64_t length = 0;
  const long fd = reopen(length);
  if (sys::failed(fd)) return false;
  const uint64_t end = (length + GPUPEAK_LOG_PAGE - 1) / GPUPEAK_LOG_PAGE * GPUPEAK_LOG_PAGE;
  const uint64_t from = end > g_file.bytes ? end : g_file.bytes;
  size_t bytes = kSmallestSegmentBytes;
  while (bytes < from && bytes < kLargestSegmentBytes) bytes *= 2;
  if (bytes < wanted) bytes = kLargestSegmentBytes;
  long result = allocate(static_cast<int>(fd), from, from + bytes);
  while (sys::failed(result) && bytes > GPUPEAK_LOG_PAGE) {  // use the disk's last pages too
    bytes /= 2;
    result = allocate(static_cast<int>(fd), from, from + bytes);
  }
  void* at = nullptr;
  if (!sys::failed(result)) {
    at = sys::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(fd),
                   static_cast<int64_t>(from));
  }
  const bool taken = has_data(static_cast<int>(fd), from);
  sys::close(static_cast<int>(fd));
  if (sys::failed(result) || sys::mmap_failed(at)) return false;
  add_self_bytes(static_cast<ptrdiff_t>(bytes));
  g_file.segment = static_cast<uint8_t*>(at);
  g_file.segment_offset = from;
  g_file.segment_used = taken ? taken_bytes(g_file.segment, bytes) : 0;
  g_file.segment_bytes = bytes;
  g_file.bytes = from + bytes;
  return g_file.segment_used < bytes;
}

/// Brings pages of ours, never written yet, into memory by writing zeros, for half of what a page
/// fault on each would cost.
void warm(uint64_t offset, size_t bytes) {
  if (bytes < kWarmedBytes) return;
  uint64_t length = 0;
  const auto fd = static_cast<int>(reopen(length));
  if (sys::failed(fd)) return;
  static const uint8_t zeros[kWarmedBytes] = {};
  for (size_t done = 0; done + sizeof zeros <= bytes; done += sizeof zeros) {
    sys::pwrite(fd, zeros, sizeof zeros, static_cast<int64_t>(offset + done));
  }
  sys::close(fd);
}

/// Leaves the rest of the current segment unused. Holds the lock.
void drop_segment_rest() {
  const size_t rest = g_file.segment_bytes - g_file.segment_used;
  if (rest > 0) unmap_pages(g_file.segment + g_file.segment_used, rest);
  g_file.segment_used = g_file.segment_bytes;
}

}  // namespace

long open_log_file(std::string_view path, gpupeak_file_header header) {
  LockGuard guard(g_file.lock);
  if (sys::failed(sys::getrandom(&header.cookie, sizeof header.cookie))) {
    header.cookie = header.start_realtime_ns * 0x9e3779b97f4a7c15u + header.pid;
  }
  header.magic = GPUPEAK_LOG_MAGIC;
  header.header_bytes = GPUPEAK_LOG_PAGE;
  header.counters_offset = GPUPEAK_LOG_PAGE;
  header.chunks_offset = 2 * GPUPEAK_LOG_PAGE;
  describe_place(header);
  const long fd = create_log(path, header, g_file.path);
  if (sys::failed(fd)) {
    g_file.path.clear();
    return fd;
  }
  const uint64_t first_bytes = 2 * GPUPEAK_LOG_PAGE;
  struct stat status;
  long result = sys::fstat(static_cast<int>(fd), &status);
  if (!sys::failed(result)) result = allocate(static_cast<int>(fd), 0, first_bytes);
  void* at = nullptr;
  if (!sys::failed(result)) {
    at = sys::mmap(nullptr, first_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(fd),
                   0);
    if (sys::mmap_failed(at)) result = reinterpret_cast<long>(at);
  }
  sys::close(static_cast<int>(fd));
  if (sys::failed(result)) {
    sys::call6(SYS_unlink, reinterpret_cast<long>(g_file.path.c_str()), 0, 0, 0, 0, 0);
    g_file.path.clear();
    return result;
  }
  add_self_bytes(static_cast<ptrdiff_t>(first_bytes));
  auto* page = static_cast<uint8_t*>(at);

  g_file.device = status.st_dev;
  g_file.inode = status.st_ino;
  g_file.cookie = header.cookie;
  g_file.bytes = first_bytes;
  g_file.segment = nullptr;
  g_file.segment_used = g_file.segment_bytes = 0;
  g_file.broken = false;
  move_counters_to(reinterpret_cast<gpupeak_counters_page*>(page + GPUPEAK_LOG_PAGE));
  counters().file_bytes = first_bytes;
  return 0;
}

std::string_view log_path() {
  return g_file.path.view();
}

namespace {

/// The next `bytes` of the file, or fewer where the disk ends, and where in it they lie.
Chunk take(size_t bytes, uint64_t& offset) {
  LockGuard guard(g_file.lock);
  if (g_file.broken || g_file.bytes == 0) return {};
  if (g_file.segment_bytes - g_file.segment_used < bytes) {
    drop_segment_rest();
    if (!extend(bytes)) {
      g_file.broken = true;
      set_quality(GPUPEAK_Q_DISK_FULL);
      return {};
    }
    const size_t left = g_file.segment_bytes - g_file.segment_used;
    if (bytes > left) bytes = left;
  }
  const Chunk chunk{g_file.segment + g_file.segment_used, bytes};
  offset = g_file.segment_offset + g_file.segment_used;
  g_file.segment_used += bytes;
  return chunk;
}

}  // namespace

Chunk new_chunk(size_t bytes, gpupeak_chunk_kind kind, uint32_t slot, uint64_t sequence,
                uint32_t tid) {
  uint64_t offset = 0;
  const Chunk chunk = take(bytes, offset);
  if (chunk.begin == nullptr) return {};
  warm(offset, chunk.bytes);
  auto* header = reinterpret_cast<gpupeak_chunk_header*>(chunk.begin);
  header->bytes = static_cast<uint32_t>(chunk.bytes);
  header->check = g_file.cookie ^ offset;
  header->kind = kind;
  header->slot = slot;
  header->sequence = sequence;
  header->start_ticks = ticks();
  header->start_monotonic_ns = monotonic_ns();
  header->tid = tid;
  std::atomic_ref<uint32_t>(header->magic).store(GPUPEAK_CHUNK_MAGIC, std::memory_order_release);
  raise_peak(counters().file_bytes,
             offset + chunk.bytes);  // it may stand behind a chunk from outside
  return chunk;
}

void retire_chunk(const Chunk& chunk) {
  if (chunk.begin != nullptr) unmap_pages(chunk.begin, chunk.bytes);
}

void trim_log_file() {
  LockGuard guard(g_file.lock);
  if (g_file.bytes == 0 || g_file.broken) return;
  const uint64_t used =
      g_file.segment_bytes == 0 ? g_file.bytes : g_file.segment_offset + g_file.segment_used;
  drop_segment_rest();  // a later chunk, after our exit handler, gets a new segment behind the cut
  uint64_t length = 0;
  const long fd = reopen(length);
  if (sys::failed(fd)) return;
  if (length > g_file.bytes) {  // chunks from outside lie behind: give back the blocks alone
    constexpr int kPunchHole = 0x02 | 0x01;  // FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
    sys::fallocate(static_cast<int>(fd), kPunchHole, static_cast<int64_t>(used),
                   static_cast<int64_t>(g_file.bytes - used));
  } else if (!sys::failed(sys::ftruncate(static_cast<int>(fd), static_cast<int64_t>(used)))) {
    g_file.bytes = used;
  }
  sys::close(static_cast<int>(fd));
}

void abandon_log_file() {
  g_file.lock.reset();
  g_file.path.clear();
  g_file.bytes = 0;
  g_file.segment = nullptr;
  g_file.segment_used = g_file.segment_bytes = 0;
  forget_counters();
}

}  // namespace gpupeak::preload
