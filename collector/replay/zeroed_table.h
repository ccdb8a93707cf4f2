// A table of fixed length, all zero at first, on huge pages if the kernel has some: events hit it
// at random, each time another page. Hash tables of the replay are such.
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

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Unmap> data_;
};

template <class T>
class ZeroedTable {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit ZeroedTable(size_t entries) : memory_(entries * sizeof(T)) {}

  T* get() const { return static_cast<T*>(memory_.data()); }
  T& operator[](size_t i) const { return get()[i]; }

 private:
  ZeroedMemory memory_;
};

}  // namespace gpupeak::collector
