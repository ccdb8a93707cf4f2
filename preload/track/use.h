// What is known of the uses of a live block. HOOK-SAFE. Filled in by track/last_use.cc.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpupeak::preload {

/// Times in ticks. All that a launch needs of it lies in its first line of the cache.
struct alignas(128) Use {
  uint64_t begin = 0, end = 0;  ///< addresses; both 0: no block
  uint64_t last = 0;
  uint64_t idle = 0;  ///< the longest while between two uses
  uint64_t count = 0;
  CUstream stream = nullptr;
  uint64_t arena = 0;          ///< 0: of the driver's
  uint32_t next_in_index = 0;  ///< AddressIndex's
  bool of_several_streams = false;
  bool is_mapping = false;
  bool may_wait = false;  ///< WaitingIndex's

  uint64_t first = 0;
  uint64_t idle_since = 0;
  uint64_t id = 0;        ///< of the driver's block; of one that is not there: the next such
  uint32_t waits_as = 0;  ///< WaitingIndex's

  bool holds(uint64_t address) const { return address >= begin && address < end; }
};

}  // namespace gpupeak::preload
