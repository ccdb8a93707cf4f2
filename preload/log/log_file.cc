#include "log/log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/environment.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

/// The format's page and the kernel's: chunks are multiples of the larger one.
constexpr uint64_t kFormatPage = GPUPEAK_LOG_PAGE;
using arch::page_bytes;
/// Header and counters page.
uint64_t head_bytes() {
  return page_end(kFormatPage + GPUPEAK_COUNTERS_BYTES);
}
/// By how much the file is made longer than its chunks, as a hole: room for what the program logs
/// after the file cannot be opened any more (other user, other root, folder gone).
constexpr uint64_t kAheadBytes = 64 << 20;
constexpr uint64_t kFirstAheadBytes = 1 << 20;
/// Chunks of this size and more are first written by path: cheaper than touching their pages.
constexpr size_t kWrittenBytes = 64 << 10;

/// The file is longer than its written part. Its next page is mapped without access; mremap makes
/// the next chunk of this mapping, so no descriptor is needed.
struct LogFile {
  FutexLock lock;
  Path path;
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t cookie = 0;
  uint64_t bytes = 0;                    ///< length, as we made it
  uint64_t ahead = 0;                    ///< by how much the file is to be longer than its chunks
  uint8_t* head = nullptr;               ///< header and counters page
  uint8_t* tail = nullptr;               ///< a page of addresses …
  uint64_t tail_offset = 0;              ///< … that stands for this one of the file
  uint64_t rest_ns = 0;                  ///< the last rest after a failure; the next one is longer
  std::atomic<uint64_t> rests_until{0};  ///< CLOCK_MONOTONIC
  std::atomic<uint64_t> gap_began{0};    ///< CLOCK_MONOTONIC; 0: chunks can be had
  std::atomic<bool> cut{false};          ///< by somebody else
};

constinit LogFile g_file;
constinit std::atomic<size_t> g_mapped_bytes{0};

void add_mapped(ptrdiff_t bytes) {
  add_addresses(bytes);
  g_mapped_bytes.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed);
}
/// Growing past RLIMIT_FSIZE would send the program SIGXFSZ.
uint64_t file_size_limit() {
  rlimit limit{};
  if (sys::failed(sys::getrlimit(RLIMIT_FSIZE, &limit)) || limit.rlim_cur > INT64_MAX)
    return INT64_MAX;
  return page_begin(limit.rlim_cur);
}

/// Makes the file reach to `end` and some way ahead, by a hole if the file system has holes.
void lengthen(long fd, uint64_t end) {
  const uint64_t limit = file_size_limit();
  struct stat status;
  for (const uint64_t ahead : {kFirstAheadBytes, kAheadBytes}) {
    if (ahead > g_file.ahead) break;
    const uint64_t wanted = end + ahead < limit ? end + ahead : limit;
    if (wanted <= g_file.bytes) continue;
    if (sys::failed(sys::ftruncate(fd, static_cast<int64_t>(wanted))) ||
        sys::failed(sys::fstat(fd, &status))) {
      return;
    }
    // Without holes (FAT) the bytes are on the disk now: no more of that.
    if (static_cast<uint64_t>(status.st_blocks) * 512 > end + kFirstAheadBytes / 2)
      g_file.ahead = kFirstAheadBytes;
    g_file.bytes = wanted;
  }
  if (g_file.bytes < end && end <= limit &&
      !sys::failed(sys::ftruncate(fd, static_cast<int64_t>(end))))
    g_file.bytes = end;
}

/// Whether the file reaches to `end`. Lengthens it early, if its path still leads to it. The caller
/// holds the lock.
bool reaches(uint64_t end) {
  if (end + g_file.ahead / 2 > g_file.bytes) {
    struct stat status;
    const sys::Descriptor file(open_log_again(status));
    if (file.is_open() && !g_file.cut) lengthen(file.fd, end);
  }
  return !g_file.cut && end <= g_file.bytes;
}

/// Takes the next `bytes` of the file. Other processes may write into the log, too, and take ranges
/// in the same way (log_appender): the counters page says how far all have got.
bool take_range(size_t bytes, uint64_t& offset) {
  std::atomic_ref<uint64_t> taken(counters().file_bytes);
  uint64_t before = taken.load(std::memory_order_relaxed);
  do {
    if (before % kFormatPage != 0 || before < g_file.tail_offset) return false;
    offset = page_end(before);  // chunks from outside may be smaller than the kernel's pages
    if (!reaches(offset + bytes)) return false;
  } while (!taken.compare_exchange_weak(before, offset + bytes, std::memory_order_relaxed));
  return true;
}

/// Gives back the part of a range that could not be had, so that the log has no hole: on a full
/// tmpfs a hole cannot even be read. If somebody else has taken the range behind it, the hole
/// stays.
void give_back(uint64_t from, uint64_t end) {
  std::atomic_ref<uint64_t>(counters().file_bytes).compare_exchange_strong(end, from);
}

/// Keeps the first `usable` bytes of a range that was mapped before the tail. The next page becomes
/// the tail again, so that the file goes on there. The caller holds the lock.
void keep_tail_at(uint8_t* at, size_t bytes, size_t usable, uint64_t offset) {
  const size_t page = page_bytes();
  if (sys::failed(sys::mprotect(at + usable, page, PROT_NONE))) {
    sys::munmap(at + usable, bytes - usable);
    return;
  }
  sys::munmap(at + usable + page, bytes - usable);
  g_file.tail = at + usable;
  g_file.tail_offset = offset + usable;
}

/// Maps [offset, offset + bytes) of the file. The caller holds the lock.
uint8_t* map_range(uint64_t offset, size_t bytes) {
  const uint64_t skipped = offset - g_file.tail_offset;  // others' chunks
  void* moved =
      sys::mremap(g_file.tail, page_bytes(), skipped + bytes + page_bytes(), MREMAP_MAYMOVE);
  if (sys::mmap_failed(moved)) return nullptr;
  auto* at = static_cast<uint8_t*>(moved);
  if (skipped != 0) sys::munmap(at, skipped);
  at += skipped;
  g_file.tail = at + bytes;
  g_file.tail_offset = offset + bytes;
  if (sys::failed(sys::mprotect(at, bytes, PROT_READ | PROT_WRITE))) {
    keep_tail_at(at, bytes, 0, offset);
    return nullptr;
  }
  add_mapped(static_cast<ptrdiff_t>(bytes));
  return at;
}

/// Writes zeros through the mapping by a system call: if the disk is full or the file was cut, that
/// is an error and no SIGBUS. Only for kernels before 5.14, and if the path leads nowhere, since
/// sandboxes may kill for this call.
long write_through(uint8_t* at, size_t bytes) {
  static const uint8_t zeros[kFormatPage] = {};
  for (size_t done = 0; done < bytes; done += kFormatPage) {
    const iovec from{const_cast<uint8_t*>(zeros), kFormatPage}, to{at + done, kFormatPage};
    const long written = sys::process_vm_writev(sys::getpid(), &from, 1, &to, 1);
    if (written != static_cast<long>(kFormatPage)) return sys::failed(written) ? written : -EFAULT;
  }
  return 0;
}

/// Writes zeros into the file itself, in large pieces, as the page cache likes them: page by page
/// it costs the kernel several times as much, be it by writing or by touching.
long write_by_path(uint64_t offset, size_t bytes) {
  static uint8_t zeros[256 << 10];  // never written, so it takes no memory
  if (offset + bytes > file_size_limit()) return -EFBIG;
  struct stat status;
  const sys::Descriptor file(open_log_again(status));
  if (!file.is_open()) return file.fd;
  size_t done = 0;
  while (done < bytes) {
    const size_t piece = bytes - done < sizeof zeros ? bytes - done : sizeof zeros;
    if (sys::pwrite(file.fd, zeros, piece, static_cast<int64_t>(offset + done)) !=
        static_cast<long>(piece))
      break;
    done += piece;
  }
  return done == bytes ? 0 : -ENOSPC;
}

/// Gets disk blocks and pages for a chunk. `written`: writing by its path has brought them.
bool populate(uint8_t* at, size_t bytes, uint64_t offset, bool written) {
  long result;
  int tries = 0;
  do {
    result = sys::madvise(at, bytes, MADV_POPULATE_WRITE);
  } while ((result == -EINTR || result == -EAGAIN) && ++tries < 1000);
  if (result == -EINVAL || result == -EPERM || result == -ENOSYS) {
    result = written ? 0 : write_by_path(offset, bytes);
    if (sys::failed(result) && result != -ENOSPC) result = write_through(at, bytes);
  }
  return !sys::failed(result);
}

/// The next `bytes` of the file, or fewer if the disk has no more. `offset`: where they are.
Chunk take_now(size_t bytes, uint64_t& offset) {
  const size_t page = page_bytes();
  for (bytes = page_end(bytes); bytes >= page; bytes = bytes / 2 / page * page) {
    if (!take_range(bytes, offset)) continue;
    const bool written = bytes >= kWrittenBytes && !sys::failed(write_by_path(offset, bytes));
    uint8_t* at = map_range(offset, bytes);
    if (at == nullptr) {
      give_back(offset, offset + bytes);
      continue;
    }
    size_t usable = bytes;  // the disk's last pages are used too
    while (usable >= page && !populate(at, usable, offset, written))
      usable = usable / 2 / page * page;
    if (usable < bytes) {
      keep_tail_at(at, bytes, usable, offset);
      add_mapped(-static_cast<ptrdiff_t>(bytes - usable));
      give_back(offset + usable, offset + bytes);
    }
    if (usable >= page) return {at, usable};
    break;
  }
  return {};
}

/// The same, with rests: if no chunk can be had, other threads do not try again at each event.
Chunk take(size_t bytes, uint64_t& offset) {
  constexpr uint64_t kShortestRestNs = 2'000'000, kLongestRestNs = 1'000'000'000;
  LockGuard guard(g_file.lock);
  if (log_rests() || g_file.cut || g_file.tail == nullptr) return {};
  const Chunk chunk = take_now(bytes, offset);
  if (chunk.begin != nullptr) {
    g_file.rest_ns = 0;
    g_file.rests_until = 0;
    return chunk;
  }
  const uint64_t now = monotonic_ns();
  uint64_t& rest = g_file.rest_ns;
  rest = rest == 0 ? kShortestRestNs : rest < kLongestRestNs / 2 ? rest * 2 : kLongestRestNs;
  g_file.rests_until = now + rest;
  uint64_t none = 0;
  g_file.gap_began.compare_exchange_strong(none, now);
  set_quality(GPUPEAK_Q_DISK_FULL);
  return {};
}

}  // namespace

long open_log_again(struct stat& status) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  sys::Descriptor file(sys::open(g_file.path.c_str(), kFlags, 0));
  if (!file.is_open()) return file.fd;
  if (sys::failed(sys::fstat(file.fd, &status)) || status.st_dev != g_file.device ||
      status.st_ino != g_file.inode)
    return -ENOENT;
  if (static_cast<uint64_t>(status.st_size) < g_file.bytes) g_file.cut = true;
  return std::exchange(file.fd, -1);
}

long open_log_file(std::string_view path, gpupeak_file_header header) {
  LockGuard guard(g_file.lock);
  if (sys::failed(sys::getrandom(&header.cookie, sizeof header.cookie)))
    header.cookie = header.start_realtime_ns * 0x9e3779b97f4a7c15u + header.pid;
  header.magic = GPUPEAK_LOG_MAGIC;
  header.header_bytes = GPUPEAK_LOG_PAGE;
  header.counters_offset = GPUPEAK_LOG_PAGE;
  header.chunks_offset = head_bytes();
  describe_place(header);
  const sys::Descriptor file(
      file_size_limit() < head_bytes() ? -EFBIG : create_log(path, header, g_file.path));
  if (!file.is_open()) {
    g_file.path.clear();
    return file.fd;
  }
  struct stat status;
  long result = sys::fstat(file.fd, &status);
  void* head = nullptr;
  void* tail = nullptr;
  if (!sys::failed(result)) {
    g_file.bytes = head_bytes();
    g_file.ahead = kAheadBytes;
    lengthen(file.fd, head_bytes());
    head = sys::mmap(nullptr, head_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    tail = sys::mmap(nullptr, page_bytes(), PROT_NONE, MAP_SHARED, file.fd, head_bytes());
    if (sys::mmap_failed(head)) result = reinterpret_cast<long>(head);
    if (sys::mmap_failed(tail)) result = reinterpret_cast<long>(tail);
  }
  if (sys::failed(result)) {
    sys::unlink(g_file.path.c_str());
    g_file.path.clear();
    return result;
  }
  // Every chunk inherits this from the tail. MADV_RANDOM: no pages are read ahead, in pieces of
  // which a page's first write would take all. MADV_DONTFORK: a forked child does not have the
  // chunks; but it keeps them all if it could not know that it is a child.
  sys::madvise(tail, page_bytes(), MADV_RANDOM);
  if (g_children_know) sys::madvise(tail, page_bytes(), MADV_DONTFORK);
  add_mapped(static_cast<ptrdiff_t>(head_bytes()));
  g_file.device = status.st_dev;
  g_file.inode = status.st_ino;
  g_file.cookie = header.cookie;
  g_file.tail = static_cast<uint8_t*>(tail);
  g_file.tail_offset = head_bytes();
  g_file.rest_ns = 0;
  g_file.rests_until = 0;
  g_file.gap_began = 0;
  g_file.cut = false;
  g_file.head = static_cast<uint8_t*>(head);
  move_counters_to(reinterpret_cast<gpupeak_counters_page*>(g_file.head + kFormatPage));
  counters().file_bytes = head_bytes();
  counters().run_id = header.run_id;
  return 0;
}

bool log_is_short() {
  return __builtin_expect(g_file.rests_until.load(std::memory_order_relaxed) != 0, 0);
}

bool log_rests() {
  return log_is_short() && monotonic_ns() < g_file.rests_until.load(std::memory_order_relaxed);
}

void end_log_rest() {
  uint64_t until = g_file.rests_until.load(std::memory_order_relaxed);
  if (until != 0) g_file.rests_until.compare_exchange_strong(until, 1);
}

bool take_log_gap(LogGap& gap, bool at_end) {
  if (__builtin_expect(g_file.gap_began.load(std::memory_order_relaxed) == 0, 1) ||
      (!at_end && g_file.rests_until.load(std::memory_order_relaxed) != 0))
    return false;
  gap = {g_file.gap_began.exchange(0), monotonic_ns()};
  return gap.begin_ns != 0;
}

std::string_view log_path() {
  return g_file.path.view();
}

void note_log_was_cut() {
  g_file.cut = true;
}

bool log_was_cut() {
  return g_file.cut;
}

bool log_is_as_long_as_it_was() {
  struct stat status;
  const sys::Descriptor file(open_log_again(status));
  return file.is_open() && static_cast<uint64_t>(status.st_size) >= g_file.bytes;
}

Chunk new_chunk(size_t bytes, gpupeak_chunk_kind kind, uint32_t slot, uint64_t sequence,
                uint32_t tid) {
  uint64_t offset = 0;
  const Chunk chunk = take(bytes, offset);
  if (chunk.begin == nullptr) return {};
  auto* header = reinterpret_cast<gpupeak_chunk_header*>(chunk.begin);
  header->bytes = static_cast<uint32_t>(chunk.bytes);
  header->check = g_file.cookie ^ offset;
  header->kind = kind;
  header->slot = slot;
  header->sequence = sequence;
  const Instant now = now_by_all_clocks(2);
  header->start_ticks = now.ticks;
  header->start_monotonic_ns = now.monotonic_ns;
  header->tid = tid;
  std::atomic_ref<uint32_t>(header->magic).store(GPUPEAK_CHUNK_MAGIC, std::memory_order_release);
  return chunk;
}

size_t fitting_chunk_bytes(size_t wanted) {
  constexpr uint64_t kShares = 32;  // of what is left: so many threads may take a chunk each
  const uint64_t limit = environment().log_max_bytes;
  constexpr uint64_t kLeastBytes = 16 << 10, kPiecesOfAll = 1 << 14;
  const uint64_t small = limit / kPiecesOfAll > kLeastBytes ? limit / kPiecesOfAll : kLeastBytes;
  const uint64_t taken =
      std::atomic_ref<uint64_t>(counters().file_bytes).load(std::memory_order_relaxed);
  const uint64_t left = taken < limit ? limit - taken : 0;
  uint64_t bytes = wanted;
  while (bytes > small && bytes > left / kShares) bytes /= 2;
  return bytes;
}

size_t mapped_log_bytes() {
  return g_mapped_bytes.load(std::memory_order_relaxed);
}

void retire_chunk(const Chunk& chunk) {
  if (chunk.begin == nullptr) return;
  unmap_pages(chunk.begin, chunk.bytes);
  g_mapped_bytes.fetch_sub(chunk.bytes, std::memory_order_relaxed);
}

void trim_log_file() {
  const SignalsHeld held;  // a jump would leave the descriptor open
  LockGuard guard(g_file.lock);
  if (g_file.tail == nullptr) return;
  struct stat status;
  const sys::Descriptor file(open_log_again(status));
  if (!file.is_open()) return;  // the file stays long: a reader goes by the counters page
  // Whoever takes a page from outside holds this lock until the page is written.
  long locked;
  int tries = 0;
  do {
    locked = sys::flock(file.fd, LOCK_EX | LOCK_NB);
  } while (locked == -EWOULDBLOCK && ++tries < 1000);
  if (!g_file.cut && locked != -EWOULDBLOCK) {
    const uint64_t used =
        std::atomic_ref<uint64_t>(counters().file_bytes).load(std::memory_order_relaxed);
    if (used < static_cast<uint64_t>(status.st_size) &&
        !sys::failed(sys::ftruncate(file.fd, static_cast<int64_t>(used)))) {
      g_file.bytes = used;
      g_file.ahead = 0;  // what is logged after our exit handler adds to the file what it needs
    }
  }
}

void abandon_log_file() {
  g_file.lock.reset();
  forget_counters();
  if (g_file.head != nullptr)
    sys::munmap(g_file.head, head_bytes());  // the chunks were not inherited
  g_file.head = g_file.tail = nullptr;
  g_file.path.clear();
  g_file.bytes = g_file.ahead = 0;
}

void leave_log_file() {
  {
    LockGuard guard(g_file.lock);
    if (g_file.tail != nullptr) sys::munmap(g_file.tail, page_bytes());
  }
  abandon_log_file();
}

}  // namespace gpupeak::preload
