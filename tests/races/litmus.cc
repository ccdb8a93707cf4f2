#include "litmus.h"

namespace litmus {

using std::memory_order_relaxed;

void reset() {
  x.store(0, memory_order_relaxed);
  y.store(0, memory_order_relaxed);
  plain = 0;
  for (int& one : seen) one = -1;
}

void write_and_tell(std::memory_order order) {
  plain = 1;
  x.store(1, order);
}
void hear_and_read(std::memory_order order) {
  seen[0] = x.load(order);
  if (seen[0] != 0) seen[1] = plain;
}

void store_x_load_y(std::memory_order order) {
  x.store(1, order);
  if (order == std::memory_order_seq_cst) std::atomic_thread_fence(order);
  seen[0] = y.load(memory_order_relaxed);
}
void store_y_load_x(std::memory_order order) {
  y.store(1, order);
  if (order == std::memory_order_seq_cst) std::atomic_thread_fence(order);
  seen[1] = x.load(memory_order_relaxed);
}

void store_both(std::memory_order order) {
  x.store(1, memory_order_relaxed);
  y.store(1, order);
}
void load_both(std::memory_order order) {
  seen[1] = y.load(order);
  seen[0] = x.load(memory_order_relaxed);
}

void increment_x() {
  int one = 1;
  x.compare_exchange_strong(one, 2, memory_order_relaxed);
}

void load_x_twice() {
  seen[2] = x.load(memory_order_relaxed);
  seen[3] = x.load(memory_order_relaxed);
}

void write_and_tell_by_fence() {
  plain = 1;
  std::atomic_thread_fence(std::memory_order_release);
  x.store(1, memory_order_relaxed);
}
void hear_and_read_by_fence() {
  seen[0] = x.load(memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (seen[0] != 0) seen[1] = plain;
}

}  // namespace litmus
