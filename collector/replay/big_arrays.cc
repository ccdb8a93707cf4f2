#include "collector/replay/big_arrays.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace gpupeak::collector {

namespace {

/// Rounded up to whole huge pages if it is a huge page or more: the kernel makes none of a part of
/// one.
size_t mapped_bytes(size_t bytes) {
  return bytes < kHugePageBytes ? bytes
                                : (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
}

/// Maps memory that begins where a huge page can.
void* map(size_t bytes) {
  const size_t more = bytes < kHugePageBytes ? 0 : kHugePageBytes;
  void* const room =
      mmap(nullptr, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  if (more == 0) return room;
  auto* const begin = static_cast<std::byte*>(room);
  const size_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + bytes, more - before);
  return begin + before;
}

}  // namespace

ZeroedMemory::ZeroedMemory(size_t bytes, bool asks_for_huge_pages) {
  grow(bytes, asks_for_huge_pages);
}

void ZeroedMemory::grow(size_t bytes, bool asks_for_huge_pages) {
  bytes = mapped_bytes(bytes);
  const size_t old_bytes = data_.get_deleter().bytes;
  if (bytes <= old_bytes) return;
  void* const data = map(bytes);
  if (old_bytes > 0) {  // its pages are moved; the new place has none yet
    if (mremap(data_.get(), old_bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, data) == MAP_FAILED)
      throw std::bad_alloc();
    (void)data_.release();
  }
  data_ = std::unique_ptr<void, Unmap>(data, Unmap{bytes});
  if (asks_for_huge_pages) madvise(data, bytes, MADV_HUGEPAGE);
}

void ZeroedMemory::Unmap::operator()(void* data) const {
  munmap(data, bytes);
}

}  // namespace gpupeak::collector
