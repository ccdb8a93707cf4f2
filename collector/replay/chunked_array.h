// An array that grows without moving its entries. Events add entries and change them at random for
// as long as a log lasts, and copying millions of them would take as long as the events themselves.
// Entries that have not been written are zero and take no memory. The tables of groups are such
// arrays.
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "collector/replay/prefetch.h"

namespace gpupeak::collector {

/// Zeroed memory in chunks of kChunkBytes, aligned to kChunkBytes.
class ZeroedChunks {
 public:
  static constexpr size_t kChunkBytes = size_t{2} << 20;  // the size of a huge page
  struct Unmap {
    void operator()(std::byte* chunk) const;
  };
  using Chunk = std::unique_ptr<std::byte, Unmap>;

  /// Throws std::bad_alloc. `many`: there are other chunks already, so this one will be filled and
  /// huge pages are asked for.
  static Chunk make(bool many);
};

template <class T>
class ChunkedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  size_t size() const { return size_; }
  T& operator[](size_t i) { return *at(i); }
  const T& operator[](size_t i) const { return *at(i); }
  /// `i` may be out of range.
  void prefetch(size_t i) const {
    if (i < size_) prefetch_line(at(i));
  }
  /// Adds an entry, all bytes of which are zero.
  T& append() {
    grow(size_ + 1);
    return *at(size_ - 1);
  }
  /// Grows to `size` entries. All bytes of the new ones are zero.
  void grow(size_t size) {
    while (size > chunks_.size() * kEntries)
      chunks_.push_back(ZeroedChunks::make(!chunks_.empty()));
    size_ = size;
  }

 private:
  static constexpr size_t kEntries = std::bit_floor(ZeroedChunks::kChunkBytes / sizeof(T));

  T* at(size_t i) const { return reinterpret_cast<T*>(chunks_[i / kEntries].get()) + i % kEntries; }

  std::vector<ZeroedChunks::Chunk> chunks_;
  size_t size_ = 0;
};

}  // namespace gpupeak::collector
