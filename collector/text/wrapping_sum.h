// Sums that a damaged log may drive beyond 64 bits: they wrap, as unsigned ones do, where plain
// signed ones would be undefined.
#pragma once

#include <cstdint>

namespace gpupeak::collector {

inline int64_t wrapping_sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace gpupeak::collector
