// A table that is all zero at first, on huge pages if the kernel has some: events hit it at random,
// each time on another page. It grows without copying, since touching new memory is what costs
// most. The replay's hash tables use it.
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
  /// Grows to so many bytes. The new ones are zero. Throws std::bad_alloc.
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
  /// Grows to so many entries. That may move all of them.
  void grow(size_t entries) { memory_.grow(entries * sizeof(T)); }

 private:
  ZeroedMemory memory_;
};

}  // namespace gpupeak::collector
