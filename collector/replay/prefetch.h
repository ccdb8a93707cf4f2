// A hint to the processor that memory will be needed soon. The tables that replay hits at random
// use it.
#pragma once

namespace gpupeak::collector {

inline void prefetch_line(const void* address) {
  __builtin_prefetch(address);
  asm volatile(
      "");  // else g++ takes functions that only prefetch as having no effect, and drops them
}

}  // namespace gpupeak::collector
