// mmap and its family. Each hook calls the real function and tells track/mapping of it.
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdarg>

#include "base/hook_scope.h"
#include "base/next_functions.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "gpupeak/pages.h"
#include "hooks/export.h"
#include "thread/resident.h"
#include "track/heap.h"
#include "track/mapping.h"

namespace gpupeak::preload {
namespace {

/// Whether a failure of this mmap is a refusal of memory. These are not: requests for addresses
/// alone; requests for large pages, since programs try those first and then ask for others; and
/// requests of an allocator, where the function that fails by it counts (malloc).
bool is_refusal(int prot, int flags) {
  return (flags & MAP_ANONYMOUS) != 0 && (flags & MAP_HUGETLB) == 0 && prot != PROT_NONE &&
         t_flags.in_allocator == 0;
}

/// Whether this is a private mapping of /dev/zero, which is anonymous memory.
bool is_zero_device(int flags, int fd) {
  constexpr unsigned kMemoryDevices = 1, kZero = 5;
  struct stat status {};
  return (flags & MAP_ANONYMOUS) == 0 && (flags & MAP_PRIVATE) != 0 &&
         !sys::failed(sys::fstat(fd, &status)) && S_ISCHR(status.st_mode) &&
         status.st_rdev == makedev(kMemoryDevices, kZero);
}

/// The kernel gives whole pages, by default of the size that /proc/meminfo names.
__attribute__((noinline)) size_t in_huge_pages(size_t bytes, int flags) {
  char text[4096];
  text[read_file("/proc/meminfo", text, sizeof text - 1)] = 0;
  const int shift = flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
  const size_t page = shift != 0 ? size_t{1} << shift : kib_behind("\nHugepagesize:", text);
  return page == 0 ? bytes : (bytes + page - 1) / page * page;
}

void sample_before(size_t bytes = kWorthASample) {
  if (!recording()) return;
  const HookScope scope;
  if (scope.entered()) sample_before_less(bytes);
}

}  // namespace
}  // namespace gpupeak::preload

using namespace gpupeak::preload;

GPUPEAK_EXPORT void* mmap(void* at, size_t bytes, int prot, int flags, int fd, off_t offset) {
  void* result = next().mmap64(at, bytes, prot, flags, fd, offset);
  if (result != MAP_FAILED) {
    const bool is_huge = (flags & MAP_HUGETLB) != 0 && (flags & MAP_ANONYMOUS) != 0;
    if (is_huge || (flags & MAP_GROWSDOWN) != 0) see_rare_pages(is_huge);
    if (host_recording())
      mapped(result, is_huge ? in_huge_pages(bytes, flags) : bytes, prot,
             is_zero_device(flags, fd) ? flags | MAP_ANONYMOUS : flags, GPUPEAK_CALLER);
  } else if (is_refusal(prot, flags) && host_recording()) {
    host_allocation_failed(GPUPEAK_KIND_MMAP_ANON, "mmap", bytes, errno, GPUPEAK_CALLER);
  }
  return result;
}
GPUPEAK_EXPORT void* mmap64(void*, size_t, int, int, int, off64_t) __attribute__((alias("mmap")));

GPUPEAK_EXPORT int munmap(void* at, size_t bytes) {
  // Logged before the call, so that another thread's mapping of the same addresses is logged after
  // it. A call that cannot be valid is not logged. One that the kernel refuses all the same (a
  // sealed range, too many mappings) is taken back.
  constexpr uintptr_t kMostAddress = uintptr_t{1} << 56;  // a program's, with five-level tables
  const auto begin = reinterpret_cast<uintptr_t>(at);
  const bool valid = bytes != 0 && begin % gpupeak::kPageBytes == 0 && begin < kMostAddress &&
                     bytes <= kMostAddress - begin;
  if (!valid || !host_recording()) return next().munmap(at, bytes);
  const Leaving leaving = unmapping(at, bytes);
  const int result = next().munmap(at, bytes);
  if (result != 0) stays(leaving, at, bytes);
  return result;
}

GPUPEAK_EXPORT int mprotect(void* at, size_t bytes, int prot) {
  const int result = next().mprotect(at, bytes, prot);
  if (result == 0 && bytes != 0 && host_recording()) reprotected(at, bytes, prot);
  return result;
}

GPUPEAK_EXPORT int pkey_mprotect(void* at, size_t bytes, int prot, int key) {
  const int result = next().pkey_mprotect(at, bytes, prot, key);
  if (result == 0 && bytes != 0 && host_recording()) reprotected(at, bytes, prot);
  return result;
}

GPUPEAK_EXPORT void* mremap(void* old_at, size_t old_bytes, size_t new_bytes, int flags, ...) {
  constexpr int kDontUnmap = 4;  // MREMAP_DONTUNMAP
  void* wanted = nullptr;
  if ((flags & (MREMAP_FIXED | kDontUnmap)) != 0) {
    va_list rest;
    va_start(rest, flags);
    wanted = va_arg(rest, void*);
    va_end(rest);
  }
  const bool leaves_it = (flags & kDontUnmap) != 0 || old_bytes == 0;
  const Leaving leaving = !leaves_it && host_recording() ? remapping(old_at, old_bytes) : Leaving{};
  void* result = next().mremap(old_at, old_bytes, new_bytes, flags, wanted);
  if (result != MAP_FAILED) {
    if (host_recording())
      remapped(old_at, leaves_it ? 0 : old_bytes, result, new_bytes, GPUPEAK_CALLER);
  } else {
    stays(leaving, old_at, old_bytes);
    if (new_bytes > old_bytes && t_flags.in_allocator == 0 && host_recording())
      host_allocation_failed(GPUPEAK_KIND_MMAP_ANON, "mremap", new_bytes - old_bytes, errno,
                             GPUPEAK_CALLER);
  }
  return result;
}

// The C library's malloc calls neither of the next two.

GPUPEAK_EXPORT int brk(void* end) {
  char* const old_end = static_cast<char*>(next().sbrk(0));
  const intptr_t by = static_cast<char*>(end) - old_end;
  const bool gives_back = by < 0 && end != nullptr && host_recording();
  if (gives_back) brk_moves(old_end, by, GPUPEAK_CALLER);
  const int result = next().brk(end);
  if (!host_recording()) return result;
  if (result == 0 && by > 0) brk_moves(old_end, by, GPUPEAK_CALLER);
  if (result == 0) return result;
  if (gives_back) brk_moves(end, -by, GPUPEAK_CALLER);
  host_allocation_failed(GPUPEAK_KIND_MMAP_ANON, "brk", by > 0 ? static_cast<size_t>(by) : 0, errno,
                         GPUPEAK_CALLER);
  return result;
}

GPUPEAK_EXPORT void* sbrk(intptr_t by) {
  void* const failed = reinterpret_cast<void*>(-1);
  char* const old_end = by < 0 ? static_cast<char*>(next().sbrk(0)) : nullptr;
  const bool gives_back = by < 0 && host_recording();
  if (gives_back) brk_moves(old_end, by, GPUPEAK_CALLER);
  void* const result = next().sbrk(by);
  if (!host_recording()) return result;
  if (gives_back && result == failed) brk_moves(old_end + by, -by, GPUPEAK_CALLER);
  if (by <= 0) return result;
  if (result != failed)
    brk_moves(result, by, GPUPEAK_CALLER);
  else if (t_flags.in_allocator == 0)
    host_allocation_failed(GPUPEAK_KIND_MMAP_ANON, "sbrk", static_cast<size_t>(by), errno,
                           GPUPEAK_CALLER);
  return result;
}

// malloc_trim, madvise and shmdt, after which less memory is resident. So a sample is taken before.

GPUPEAK_EXPORT int malloc_trim(size_t pad) {
  sample_before();
  return next().malloc_trim != nullptr ? next().malloc_trim(pad) : 0;
}

GPUPEAK_EXPORT int madvise(void* at, size_t bytes, int advice) {
  if (advice == MADV_DONTNEED || advice == MADV_FREE) sample_before(bytes);
  return next().madvise(at, bytes, advice);
}

GPUPEAK_EXPORT int shmdt(const void* at) {
  sample_before();
  return next().shmdt(at);
}
