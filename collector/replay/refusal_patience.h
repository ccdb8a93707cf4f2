// What may still be gone through to say who held memory when a request was refused. Real programs
// are refused a few times; a log that was made to hurt is at each event, with all that it has live.
#pragma once

#include <cstdint>

namespace gpupeak::collector {

class RefusalPatience {
 public:
  /// Before a look at so many groups, blocks and ranges. False: it is at its end for good.
  bool take(uint64_t steps) {
    left_ = left_ > steps ? left_ - steps : 0;
    return left_ > 0;
  }
  bool has_ended() const { return left_ == 0; }

 private:
  uint64_t left_ = UINT64_C(1) << 28;  // a second or two
};

}  // namespace gpupeak::collector
