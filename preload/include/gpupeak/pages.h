// Pages of the host and of the driver, as both sides round to them.
#pragma once

#include <cstdint>

namespace gpupeak {

constexpr uint64_t kPageBytes = 4096;
/// The driver takes a device's memory in pages of this size.
constexpr uint64_t kDriverPageBytes = 2u << 20;

/// The next multiple of a page's size; 0 if 64 bits cannot hold it.
constexpr uint64_t whole_pages(uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}
constexpr uint64_t whole_driver_pages(uint64_t bytes) {
  return (bytes + kDriverPageBytes - 1) / kDriverPageBytes * kDriverPageBytes;
}

}  // namespace gpupeak
