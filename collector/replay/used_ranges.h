// Which bytes of a range of addresses some block has used so far. Ranges that touch are one, so
// there are no more of them than there are gaps between used bytes.
//
//   add(10, 20) = 10    add(15, 30) = 10    remove(0, 12) = 2    {12..30}
#pragma once

#include <cstdint>
#include <map>

namespace gpupeak::collector {

class UsedRanges {
 public:
  /// Bytes from `begin` to before `end` are used. Returns how many were not yet.
  uint64_t add(uint64_t begin, uint64_t end);
  /// They are forgotten. Returns how many were used.
  uint64_t remove(uint64_t begin, uint64_t end);

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin to end; neither overlap nor touch
};

}  // namespace gpupeak::collector
