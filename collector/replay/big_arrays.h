// A hint to the processor that memory will be needed soon. The tables that replay hits at random
// use it.
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace gpupeak::collector {

/// Asks for the cache line of `address`, which need not be readable.
inline void prefetch_line(const void* address) {
  __builtin_prefetch(address);
  // Otherwise g++ takes a function that only prefetches as without effect, and drops it.
  asm volatile("");
}

/// The size of a huge page.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// Memory that is all zero at first. It grows without copying, since touching new memory is what
/// costs most.
class ZeroedMemory {
 public:
  /// Throws std::bad_alloc. `asks_for_huge_pages`: events will hit all of it at random, each time
  /// on another page.
  explicit ZeroedMemory(size_t bytes, bool asks_for_huge_pages = true);

  void* data() const { return data_.get(); }
  /// Grows to so many bytes, on huge pages if the kernel has some. The new ones are zero. Throws
  /// std::bad_alloc.
  void grow(size_t bytes, bool asks_for_huge_pages = true);

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Unmap> data_{nullptr, Unmap{0}};
};

// An array that grows without moving its entries. Events add entries and change them at random for
// as long as a log lasts, and copying millions of them would take as long as the events themselves.
// Entries that have not been written are zero and take no memory. The tables of groups are such
// arrays.

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
    // Where there are other chunks already, this one will be filled.
    while (size > chunks_.size() * kEntries) chunks_.emplace_back(kHugePageBytes, !chunks_.empty());
    size_ = size;
  }

 private:
  static constexpr size_t kEntries = std::bit_floor(kHugePageBytes / sizeof(T));

  T* at(size_t i) const { return static_cast<T*>(chunks_[i / kEntries].data()) + i % kEntries; }

  std::vector<ZeroedMemory> chunks_;
  size_t size_ = 0;
};

/// A table that is all zero at first. The replay's hash tables use it.
template <class T>
class ZeroedTable {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit ZeroedTable(size_t entries) : memory_(entries * sizeof(T)) {}

  T* get() const { return static_cast<T*>(memory_.data()); }
  T& operator[](size_t i) const { return get()[i]; }
  /// Grows to so many entries. That may move all of them.
  void grow(size_t entries) { memory_.grow(entries * sizeof(T)); }

 private:
  ZeroedMemory memory_;
};

}  // namespace gpupeak::collector
