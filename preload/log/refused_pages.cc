#include "log/refused_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/futex_lock.h"
#include "base/syscalls.h"
#include "log/log_file.h"

namespace gpupeak::preload {
namespace {

struct Refused {
  uint8_t* memory = nullptr;
  uint64_t offset = 0;  ///< of the page in the file
};
/// Refused pages take at most 4 MiB of the program's memory, with pages of 4 KiB.
constexpr size_t kMost = 1024;
constexpr uint64_t kNowhere = UINT64_MAX;

constinit FutexLock g_lock;  // taken after all other locks
constinit Refused g_refused[kMost];
constinit std::atomic<size_t> g_count{0};

bool is_kept(const uint8_t* page) {
  for (size_t i = 0; i < g_count; ++i) {
    if (g_refused[i].memory == page) return true;
  }
  return false;
}

uint64_t hex_at(const char*& at) {
  uint64_t number = 0;
  for (;; ++at) {
    const int digit = *at >= '0' && *at <= '9'   ? *at - '0'
                      : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
                                                 : -1;
    if (digit < 0) return number;
    number = number * 16 + static_cast<uint64_t>(digit);
  }
}

/// The page's offset, from a line of /proc/self/maps: "begin-end rights offset …". kNowhere: the
/// line is about other pages.
uint64_t offset_in(const char* line, uint64_t page) {
  const uint64_t begin = hex_at(line);
  const uint64_t end = hex_at(++line);
  if (page < begin || page >= end) return kNowhere;
  constexpr size_t kRights = sizeof " rwxs " - 1;
  line += kRights;
  return hex_at(line) + (page - begin);
}

/// Where in its file a mapped page lies. The caller holds the lock.
uint64_t file_offset_of(uint64_t page) {
  static char text[16 << 10];
  const long fd = sys::open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
  if (sys::failed(fd)) return kNowhere;
  uint64_t found = kNowhere;
  for (int64_t at = 0; found == kNowhere;) {
    const long got = sys::pread(static_cast<int>(fd), text, sizeof text - 1, at);
    if (got <= 0) break;
    text[got] = 0;
    const char* line = text;
    for (const char* end; found == kNowhere && (end = strchr(line, '\n')) != nullptr;
         line = end + 1)
      found = offset_in(line, page);
    if (line == text) break;
    at += line - text;  // a line that is not whole is read once more
  }
  sys::close(static_cast<int>(fd));
  return found;
}

/// New memory with the bytes of a page that can be read; nullptr: none could be had.
uint8_t* copy_of(const uint8_t* page) {
  void* const memory = sys::mmap(nullptr, arch::page_bytes(), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (sys::mmap_failed(memory)) return nullptr;
  memcpy(memory, page, arch::page_bytes());
  return static_cast<uint8_t*>(memory);
}

bool write_page(int fd, const Refused& page) {
  const size_t bytes = arch::page_bytes();
  return sys::pwrite(fd, page.memory, bytes, static_cast<int64_t>(page.offset)) ==
         static_cast<long>(bytes);
}

}  // namespace

bool keep_refused_page(void* address) {
  const size_t bytes = arch::page_bytes();
  auto* const page =
      reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(address) / bytes * bytes);
  const LockGuard guard(g_lock);
  if (is_kept(page)) return true;  // by another thread, just now
  // This fails if the file was cut, and before Linux 5.14.
  if (g_count == kMost || sys::failed(sys::madvise(page, bytes, MADV_POPULATE_READ))) return false;
  const uint64_t offset = file_offset_of(reinterpret_cast<uintptr_t>(page));
  uint8_t* const copy = offset != kNowhere ? copy_of(page) : nullptr;
  if (copy == nullptr) return false;
  if (sys::mmap_failed(sys::move_mapping(copy, bytes, page))) {
    sys::munmap(copy, bytes);
    return false;
  }
  g_refused[g_count++] = {page, offset};
  return true;
}

bool write_refused_pages() {
  if (__builtin_expect(g_count == 0, 1)) return true;
  const LockGuard guard(g_lock);
  struct stat status;
  const long fd = open_log_again(status);
  if (sys::failed(fd)) return false;
  bool are_written = true;
  for (size_t i = 0; i < g_count; ++i)
    are_written = write_page(static_cast<int>(fd), g_refused[i]) && are_written;
  sys::close(static_cast<int>(fd));
  return are_written;
}

void keep_refused_pages_of(const void* begin, size_t bytes) {
  if (__builtin_expect(g_count == 0, 1)) return;
  const LockGuard guard(g_lock);
  const auto* const from = static_cast<const uint8_t*>(begin);
  for (size_t i = 0; i < g_count; ++i) {
    Refused& page = g_refused[i];
    if (page.memory < from || page.memory >= from + bytes) continue;
    uint8_t* const elsewhere = copy_of(page.memory);
    if (elsewhere != nullptr)
      page.memory = elsewhere;
    else
      note_log_was_cut();
  }
}

void forget_refused_pages() {
  for (size_t i = 0; i < g_count; ++i) sys::munmap(g_refused[i].memory, arch::page_bytes());
  g_count = 0;
  g_lock.reset();
}

}  // namespace gpupeak::preload
