// How much each native stack of a thread has asked for in small pieces: which of them are worth
// their Python lines. Those of an import are many and ask for little each; what makes a peak asks
// in the same place again and again. HOOK-SAFE; of one thread.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

class AskedFor {
 public:
  /// Adds `bytes` to what the stack `node` has asked for. Whether that is `enough` by now. Of two
  /// stacks in one place that which asks for more stays; the other is taken for new each time.
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
