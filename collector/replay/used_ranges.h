// Which bytes of some addresses blocks have used so far. Ranges that touch become one, so there are
// no more of them than gaps between used bytes.
//
//   add(10, 20) = 10    add(15, 30) = 10    remove(0, 12) = 2    {12..30}
#pragma once

#include <cstdint>
#include <map>

namespace gpupeak::collector {

class UsedRanges {
 public:
  /// Adds the bytes [begin, end). Returns how many were not there.
  uint64_t add(uint64_t begin, uint64_t end);
  /// Removes the bytes [begin, end). Returns how many were there.
  uint64_t remove(uint64_t begin, uint64_t end);

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin to end; neither overlap nor touch
};

}  // namespace gpupeak::collector
