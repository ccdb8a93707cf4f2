#include "collector/replay/zeroed_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <stop_token>
#include <system_error>

namespace gpupeak::collector {
namespace {

/// In pieces, so that it can be stopped, and others get to change what is mapped. Does nothing
/// where the kernel does not know how (before Linux 5.14): then each page comes when it is written
/// to.
void touch(std::byte* from, size_t bytes, const std::stop_token& stop) {
  constexpr size_t kPiece = size_t{256} << 10;
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
  for (size_t done = 0; done < bytes && !stop.stop_requested(); done += kPiece) {
    if (madvise(from + done, std::min(kPiece, bytes - done), kPopulateWrite) != 0) return;
  }
}

}  // namespace

ZeroedMemory::ZeroedMemory(size_t bytes, bool beside)
    : data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
      bytes_(bytes) {
  // A smaller one is there before a thread has begun.
  constexpr size_t kWorthThread = size_t{4} << 20;
  if (data_ == MAP_FAILED) throw std::bad_alloc();
  madvise(data_, bytes_, MADV_HUGEPAGE);
  if (bytes < kWorthThread || !beside) return;
  try {
    toucher_ = std::jthread([from = static_cast<std::byte*>(data_),
                             bytes](const std::stop_token& stop) { touch(from, bytes, stop); });
  } catch (const std::system_error&) {
    // No more threads are to be had.
  }
}

/// The thread ends before other memory can lie there.
ZeroedMemory::~ZeroedMemory() {
  toucher_ = {};
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace gpupeak::collector
