// What is known of a live block's uses. Filled in by track/last_use.cc. HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpupeak::preload {

/// Times are in ticks. The first cache line has all that a launch needs.
struct alignas(128) Use {
  uint64_t begin = 0, end = 0;  ///< addresses; both 0: no block
  uint64_t last = 0;
  uint64_t idle = 0;   ///< the longest time between two uses
  uint64_t count = 0;  ///< uses since the block's last record
  CUstream stream = nullptr;
  uint64_t arena = 0;          ///< the arena that gave the block; 0: the driver did
  uint32_t next_in_index = 0;  ///< for AddressIndex
  bool of_several_streams = false;
  bool is_mapping = false;
  bool may_wait = false;  ///< for WaitingIndex
  bool is_array = false;  ///< it has no address, and is in no index

  uint64_t first = 0;
  uint64_t idle_since = 0;
  uint64_t id = 0;        ///< the driver's block in the log; of a free Use: the next free one
  uint32_t waits_as = 0;  ///< for WaitingIndex
  uint32_t roles = 0;     ///< for track/roles.cc: the first of its roles; 0: none
  uint32_t role_count = 0;
  bool is_host = false;  ///< pinned memory

  bool holds(uint64_t address) const { return address >= begin && address < end; }
};

}  // namespace gpupeak::preload
