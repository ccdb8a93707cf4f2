// How much may still be looked at to say who held memory when a request was refused. Real programs
// are refused a few times. A log that was made to do harm may be refused at each event, with very
// much live.
#pragma once

#include <cstdint>

namespace gpupeak::collector {

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
