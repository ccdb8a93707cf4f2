// The usual small programs by which memory models are told apart, instrumented (litmus.cc).
#pragma once

#include <atomic>

namespace litmus {

inline std::atomic<int> x, y;
inline int plain, seen[4];

void reset();
/// One thread writes `plain` and says so in x, the other one reads it when it sees that.
void write_and_tell(std::memory_order order);
void hear_and_read(std::memory_order order);
/// Each stores into one and loads the other.
void store_x_load_y(std::memory_order order);
void store_y_load_x(std::memory_order order);
/// x, then y; read in the other order.
void store_both(std::memory_order order);
void load_both(std::memory_order order);
/// A third thread's relaxed increment between the release and the acquire.
void increment_x();
/// Twice the same object.
void load_x_twice();
/// As write_and_tell() and hear_and_read(), by fences.
void write_and_tell_by_fence();
void hear_and_read_by_fence();

}  // namespace litmus
