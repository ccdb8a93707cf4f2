// Marks the functions and variables that nearly every recorded allocation needs, so that they lie
// together in few pages: a program that does much between two allocations pushes most other pages
// out of the processor's TLB.
#pragma once

#include <atomic>
#include <cstdint>

/// For a function. (malloc and free, in hooks/malloc_entry_*.S, lie there too.) Each one begins a
/// cache line, so that other code cannot move it to a bad place: that made node 4 % slower.
#define GPUPEAK_HOT __attribute__((hot, aligned(64)))
/// For a variable that another file defines. It is this library's own, so its address is known and
/// need not be loaded.
#define GPUPEAK_OWN __attribute__((visibility("hidden")))
/// For a variable that has an initial value.
#define GPUPEAK_HOT_DATA __attribute__((section("gpupeak_hot")))

namespace gpupeak::preload {

// The order in which a thread writes what its own signal handlers may meet. HOOK-SAFE.

/// If a signal handler leaves by a jump, the writes above this may have happened without those
/// below it, but never those below without those above.
inline __attribute__((always_inline)) void in_order() {
  asm volatile("" ::: "memory");
}

/// The value whose bytes lie there, aligned or not.
template <typename T>
T value_at(const void* at) {
  T value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

/// A pointer or a handle as a number, as records have it.
inline uint64_t address_of(const void* at) {
  return reinterpret_cast<uint64_t>(at);
}

/// The base of a class whose destructor ends what its constructor began. A class with a member of
/// such a class needs none: an empty base beside one would take room.
struct NoCopies {
  NoCopies() = default;
  NoCopies(const NoCopies&) = delete;
  NoCopies& operator=(const NoCopies&) = delete;
};

/// Makes `largest`, an atomic, at least `value`. False: it was so already.
template <typename Largest, typename Number>
bool raise_to(Largest&& largest, Number value) {
  Number seen = largest.load(std::memory_order_relaxed);
  while (value > seen) {
    if (largest.compare_exchange_weak(seen, value, std::memory_order_relaxed)) return true;
  }
  return false;
}

/// A function object that the caller has, for as long as the call lasts: for functions that are no
/// templates.
template <typename Signature>
class FunctionRef;
template <typename Result, typename... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <typename Function>
  FunctionRef(const Function& function)
      : function_(&function), call_([](const void* it, Arguments... arguments) -> Result {
          return (*static_cast<const Function*>(it))(arguments...);
        }) {}
  Result operator()(Arguments... arguments) const { return call_(function_, arguments...); }

 private:
  const void* const function_;
  Result (*const call_)(const void*, Arguments...);
};

}  // namespace gpupeak::preload
