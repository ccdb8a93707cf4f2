// A table, all zero at first, on huge pages if the kernel has some: events hit it at random, each
// time another page. It grows without being copied, since what is dear is memory that nobody has
// touched yet. Hash tables of the replay are such.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace gpupeak::collector {

class ZeroedMemory {
 public:
  /// Throws std::bad_alloc.
  explicit ZeroedMemory(size_t bytes);

  void* data() const { return data_.get(); }
  /// To more bytes, which are zero. Throws std::bad_alloc.
  void grow(size_t bytes);

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Unmap> data_{nullptr, Unmap{0}};
};

template <class T>
class ZeroedTable {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit ZeroedTable(size_t entries) : memory_(entries * sizeof(T)) {}

  T* get() const { return static_cast<T*>(memory_.data()); }
  T& operator[](size_t i) const { return get()[i]; }
  /// To more entries, which may move all of them.
  void grow(size_t entries) { memory_.grow(entries * sizeof(T)); }

 private:
  ZeroedMemory memory_;
};

}  // namespace gpupeak::collector
