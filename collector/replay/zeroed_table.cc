#include "collector/replay/zeroed_table.h"

#include <sys/mman.h>

#include <new>

namespace gpupeak::collector {

ZeroedMemory::ZeroedMemory(size_t bytes)
    : data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            Unmap{bytes}) {
  if (data_.get() == MAP_FAILED) {
    (void)data_.release();
    throw std::bad_alloc();
  }
  madvise(data_.get(), bytes, MADV_HUGEPAGE);
}

void ZeroedMemory::Unmap::operator()(void* data) const {
  munmap(data, bytes);
}

}  // namespace gpupeak::collector
