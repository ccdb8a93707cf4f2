// The processor as the explorer simulates it, in place of preload/base/arch.h.
#pragma once

#define order_loads real_order_loads
#define order_stores real_order_stores
#define counter real_counter
#include "../../../../preload/base/arch.h"
#undef order_loads
#undef order_stores
#undef counter

#include <atomic>

#include "../../explorer.h"

namespace gpupeak::preload::arch {

inline void order_loads() {
  std::atomic_thread_fence(std::memory_order_acquire);
}
inline void order_stores() {
  std::atomic_thread_fence(std::memory_order_release);
}
inline uint64_t counter() {
  return weak::clock();
}

}  // namespace gpupeak::preload::arch
