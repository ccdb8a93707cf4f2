// A hint to the processor that memory will be needed soon. The tables that replay hits at random
// use it.
#pragma once

namespace gpupeak::collector {

/// Asks for the cache line of `address`, which need not be readable.
inline void prefetch_line(const void* address) {
  __builtin_prefetch(address);
  // Otherwise g++ takes a function that only prefetches as without effect, and drops it.
  asm volatile("");
}

}  // namespace gpupeak::collector
