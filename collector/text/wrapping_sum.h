// Sums that a damaged log may drive beyond 64 bits. They wrap around, as unsigned sums do: for
// plain signed ones that would be undefined.
#pragma once

#include <cstdint>

namespace gpupeak::collector {

inline int64_t wrapping_sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace gpupeak::collector
