#include "collector/replay/chunked_array.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace gpupeak::collector {

void ZeroedChunks::Unmap::operator()(std::byte* chunk) const {
  munmap(chunk, kChunkBytes);
}

ZeroedChunks::Chunk ZeroedChunks::make(bool many) {
  void* room =
      mmap(nullptr, 2 * kChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(room);
  const size_t before = -reinterpret_cast<uintptr_t>(begin) % kChunkBytes;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + kChunkBytes, kChunkBytes - before);
  if (many) madvise(begin + before, kChunkBytes, MADV_HUGEPAGE);
  return Chunk(begin + before);
}

}  // namespace gpupeak::collector
