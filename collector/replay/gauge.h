// Bytes now and at most, without holders.
#pragma once

#include <cstdint>

namespace gpupeak::collector {

struct Gauge {
  uint64_t current = 0, peak = 0;
  void set(uint64_t bytes) {
    current = bytes;
    if (bytes > peak) peak = bytes;
  }
};

}  // namespace gpupeak::collector
