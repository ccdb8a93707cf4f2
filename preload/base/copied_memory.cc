#include "base/copied_memory.h"

#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

/// Copies the pieces to `to`, one behind the other. Returns the bytes copied before the first piece
/// that cannot be read, or -errno. It is a write to ourselves: the kernel reads the caller's pieces
/// one by one, at some ns each; of the other side it would pin the pages of each piece.
long copy(const iovec* pieces, uint32_t count, uint8_t* to, size_t bytes) {
  const iovec target{to, bytes};
  return sys::process_vm_writev(sys::getpid(), pieces, count, &target, 1);
}

}  // namespace

bool copy_word(uintptr_t address, uint64_t& word) {
  const iovec piece{reinterpret_cast<void*>(address), sizeof word};
  return copy(&piece, 1, reinterpret_cast<uint8_t*>(&word), sizeof word) == sizeof word;
}

bool CopiedMemory::is_allowed() {
  uint64_t from = 1, to = 0;
  return copy_word(reinterpret_cast<uintptr_t>(&from), to) && to == from;
}

void CopiedMemory::index(uint32_t range) {
  uint32_t i = static_cast<uint32_t>(ranges_[range].address * 0x9e3779b97f4a7c15u >> 40);
  while (slots_[i &= kSlots - 1].table == table_) ++i;
  slots_[i] = {table_, range};
}

uint32_t CopiedMemory::find(uintptr_t address, size_t bytes) const {
  for (uint32_t i = static_cast<uint32_t>(address * 0x9e3779b97f4a7c15u >> 40);; ++i) {
    const auto& slot = slots_[i &= kSlots - 1];
    if (slot.table != table_) return kRanges;
    const Range& range = ranges_[slot.range];
    if (range.address == address && range.bytes == bytes) return slot.range;
  }
}

/// Keeps the ranges that were used. If a range follows the one before it in memory, as contents
/// follow their head, it follows in the buffer too, so that both are one piece.
void CopiedMemory::lay_out() {
  if (++table_ == 0) {
    memset(slots_, 0, sizeof slots_);
    table_ = 1;
  }
  uint32_t kept = 0;
  end_ = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    Range range = ranges_[i];
    if (!range.used) continue;
    const Range& before = ranges_[kept > 0 ? kept - 1 : 0];
    const uintptr_t gap = range.address - (before.address + before.bytes);
    range.begins_piece = kept == 0 || gap > kMaxGap;
    range.offset = end_ + (range.begins_piece ? 0 : static_cast<uint32_t>(gap));
    if (range.bytes > kBytes - range.offset) break;
    end_ = range.offset + range.bytes;
    ranges_[kept] = range;
    index(kept++);
  }
  count_ = kept;
}

/// Copies all ranges; false if any cannot be read.
bool CopiedMemory::copy_all() {
  bool complete = true;
  for (uint32_t first = 0; first < count_;) {
    uint32_t pieces = 0;
    uint32_t next = first;
    for (; next < count_; ++next) {
      const Range& range = ranges_[next];
      if (range.begins_piece) {
        if (pieces == kMaxPieces) break;
        pieces_[pieces++] = {reinterpret_cast<void*>(range.address), range.bytes};
      } else {
        iovec& piece = pieces_[pieces - 1];
        piece.iov_len = range.address + range.bytes - reinterpret_cast<uintptr_t>(piece.iov_base);
      }
    }
    const uint32_t begin = ranges_[first].offset;
    const uint32_t end = ranges_[next - 1].offset + ranges_[next - 1].bytes;
    const long copied = copy(pieces_, pieces, copies() + begin, end - begin);
    const uint64_t got = sys::failed(copied) ? 0 : static_cast<uint64_t>(copied);
    for (; first < next; ++first) {
      Range& range = ranges_[first];
      range.valid = range.offset + range.bytes <= begin + got;
      complete = complete && range.valid;
    }
  }
  return complete;
}

bool CopiedMemory::begin() {
  const bool settled = complete_ && count_ > 0 && laid_out_ == count_ && used_ == count_;
  if (settled) {
    current_ ^= 1;
  } else {
    lay_out();
  }
  complete_ = copy_all();
  laid_out_ = count_;
  used_ = 0;
  for (uint32_t i = 0; i < count_; ++i) ranges_[i].used = false;
  if (!settled || !complete_ || memcmp(data_[0], data_[1], end_) != 0) return false;
  // These count as read.
  for (uint32_t i = 0; i < count_; ++i) ranges_[i].used = true;
  used_ = count_;
  return true;
}

void CopiedMemory::begin_anew() {
  for (uint32_t i = 0; i < count_; ++i) ranges_[i].used = false;
  lay_out();
  laid_out_ = used_ = 0;
  complete_ = true;
}

const uint8_t* CopiedMemory::read(uintptr_t address, size_t bytes) {
  uint32_t found = find(address, bytes);
  if (found == kRanges) {
    if (count_ == kRanges || bytes > kBytes - end_) {
      complete_ = false;
      return nullptr;
    }
    found = count_++;
    ranges_[found] = {address, static_cast<uint32_t>(bytes), end_, true, false, false};
    end_ += static_cast<uint32_t>(bytes);
    index(found);
  }
  Range& range = ranges_[found];
  if (!range.valid) {
    const iovec piece{reinterpret_cast<void*>(address), bytes};
    range.valid = copy(&piece, 1, copies() + range.offset, bytes) == static_cast<long>(bytes);
    if (!range.valid) complete_ = false;
  }
  if (range.valid && !range.used) {
    range.used = true;
    ++used_;
  }
  return range.valid ? copies() + range.offset : nullptr;
}

}  // namespace gpupeak::preload
