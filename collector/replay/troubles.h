// What did not add up while a log was replayed. The quality warnings are made from it.
#pragma once

#include <cstdint>

namespace gpupeak::collector {

// Bytes now and at most, without holders.

struct Gauge {
  uint64_t current = 0, peak = 0;
  void set(uint64_t bytes) {
    current = bytes;
    if (bytes > peak) peak = bytes;
  }
};

struct ReplayTroubles {
  uint64_t unmatched_device_frees = 0;  ///< the writer said so: the pointer was never seen
  uint64_t unknown_heap_frees = 0;      ///< blocks from before the log's start
  uint64_t repairs = 0;                 ///< contradictions; the likelier event was believed
  uint64_t malformed_events = 0;        ///< left out
  uint64_t undefined_stacks = 0;        ///< events whose stack the log does not define
};

// How much may still be looked at to say who held memory when a request was refused. Real programs
// are refused a few times. A log that was made to do harm may be refused at each event, with very
// much live.

class RefusalPatience {
 public:
  /// Call it before looking at so many groups, blocks and ranges. False: it has ended, for good.
  bool take(uint64_t steps) {
    left_ = left_ > steps ? left_ - steps : 0;
    return left_ > 0;
  }
  bool has_ended() const { return left_ == 0; }

 private:
  uint64_t left_ = UINT64_C(1) << 28;  // a second or two
};

}  // namespace gpupeak::collector
