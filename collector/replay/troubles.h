// What did not add up while a log was replayed. The quality warnings are made from it.
#pragma once

#include <cstdint>

namespace gpupeak::collector {

struct ReplayTroubles {
  uint64_t unmatched_device_frees = 0;  ///< the writer said so: the pointer was never seen
  uint64_t unknown_heap_frees = 0;      ///< blocks from before the log's start
  uint64_t repairs = 0;                 ///< contradictions; the likelier event was believed
  uint64_t malformed_events = 0;        ///< left out
  uint64_t undefined_stacks = 0;        ///< events whose stack the log does not define
};

}  // namespace gpupeak::collector
