#include "base/copied_memory.h"

#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

/// Copies the pieces one behind the other to `to`; the bytes copied before the first that cannot be
/// read, or -errno. It is a write to ourselves: the kernel reads the caller's side piece by piece,
/// at some ns each, where it would pin the pages of each piece of the other side.
long copy(const iovec* pieces, uint32_t count, uint8_t* to, size_t bytes) {
  const iovec target{to, bytes};
  return sys::call6(SYS_process_vm_writev, sys::getpid(), reinterpret_cast<long>(pieces), count,
                    reinterpret_cast<long>(&target), 1, 0);
}

}  // namespace

bool CopiedMemory::is_allowed() {
  uint64_t from = 1, to = 0;
  const iovec piece{&from, sizeof from};
  return copy(&piece, 1, reinterpret_cast<uint8_t*>(&to), sizeof to) == sizeof to;
}

void CopiedMemory::index(uint32_t range) {
  uint32_t i = static_cast<uint32_t>(ranges_[range].address * 0x9e3779b97f4a7c15u >> 40);
  while (slots_[i &= kSlots - 1].session == session_) ++i;
  slots_[i] = {session_, range};
}

uint32_t CopiedMemory::find(uintptr_t address, size_t bytes) const {
  for (uint32_t i = static_cast<uint32_t>(address * 0x9e3779b97f4a7c15u >> 40);; ++i) {
    const auto& slot = slots_[i &= kSlots - 1];
    if (slot.session != session_) return kRanges;
    const Range& range = ranges_[slot.range];
    if (range.address == address && range.bytes == bytes) return slot.range;
  }
}

void CopiedMemory::begin() {
  if (++session_ == 0) {
    memset(slots_, 0, sizeof slots_);
    session_ = 1;
  }
  uint32_t kept = 0;
  uint32_t end = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    if (!ranges_[i].used) continue;
    ranges_[kept] = {ranges_[i].address, ranges_[i].bytes, end, false, false};
    end += ranges_[kept].bytes;
    index(kept++);
  }
  count_ = kept;
  end_ = end;
  for (uint32_t first = 0; first < count_;) {
    uint32_t n = 0;
    size_t bytes = 0;
    for (; n < kPieces && first + n < count_; ++n) {
      const Range& range = ranges_[first + n];
      pieces_[n] = {reinterpret_cast<void*>(range.address), range.bytes};
      bytes += range.bytes;
    }
    const long copied = copy(pieces_, n, data_ + ranges_[first].offset, bytes);
    long left = sys::failed(copied) ? 0 : copied;
    for (uint32_t i = first; i < first + n && left >= static_cast<long>(ranges_[i].bytes); ++i) {
      ranges_[i].valid = true;
      left -= static_cast<long>(ranges_[i].bytes);
    }
    first += n;
  }
}

const uint8_t* CopiedMemory::read(uintptr_t address, size_t bytes) {
  uint32_t found = find(address, bytes);
  if (found == kRanges) {
    if (count_ == kRanges || bytes > kBytes - end_) return nullptr;
    found = count_++;
    ranges_[found] = {address, static_cast<uint32_t>(bytes), end_, false, false};
    end_ += static_cast<uint32_t>(bytes);
    index(found);
  }
  Range& range = ranges_[found];
  if (!range.valid) {
    const iovec piece{reinterpret_cast<void*>(address), bytes};
    range.valid = copy(&piece, 1, data_ + range.offset, bytes) == static_cast<long>(bytes);
  }
  range.used = range.valid;
  return range.valid ? data_ + range.offset : nullptr;
}

}  // namespace gpupeak::preload
