// A table of fixed length, all zero at first, on huge pages if the kernel has some: events hit it
// at random, each time another page. The kernel clears a page when it is touched first, which takes
// longer than what is written there; where processors are idle, a thread has it do so for the whole
// table, while the owner is already filling it. Hash tables of the replay are such.
#pragma once

#include <cstddef>
#include <thread>
#include <type_traits>
#include <utility>

#include "collector/log/parallel.h"

namespace gpupeak::collector {

class ZeroedMemory {
 public:
  /// `beside`: by a thread as well. Throws std::bad_alloc.
  explicit ZeroedMemory(size_t bytes, bool beside = usable_processors() > kReplayThreads);
  ~ZeroedMemory();
  ZeroedMemory(ZeroedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_),
        toucher_(std::move(other.toucher_)) {}
  ZeroedMemory& operator=(ZeroedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(toucher_, other.toucher_);
    return *this;
  }

  void* data() const { return data_; }

 private:
  void* data_;
  size_t bytes_;
  std::jthread toucher_;
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
