// How many bytes each native stack of a thread has asked for in small blocks: this tells which
// stacks are worth their Python lines. An import has many stacks that ask for little each; what
// makes a peak asks in the same place again and again. HOOK-SAFE; of one thread.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

class AskedFor {
 public:
  /// Adds `bytes` to what the stack `node` has asked for. True if that is `enough` by now. If two
  /// stacks share a place, the one that asks for more stays; the other counts as new each time.
  bool comes_to(uint32_t node, uint64_t bytes, uint64_t enough) {
    Place& place = places_[(node * 0x9e3779b1u) >> (32 - kPlacesLog)];
    if (place.node != node) {
      if (place.bytes > bytes) {
        place.bytes -= bytes;
        return false;
      }
      place = {node, 0};
    }
    if (place.bytes < enough) place.bytes += bytes;
    return place.bytes >= enough;
  }

 private:
  static constexpr uint32_t kPlacesLog = 10;
  struct Place {
    uint32_t node;
    uint64_t bytes;
  };
  Place places_[1 << kPlacesLog];
};

}  // namespace gpupeak::preload
