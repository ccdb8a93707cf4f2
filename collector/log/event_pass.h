// Work that has to see all events of a log, in their order and before whoever takes them:
// EventBatches does it on the thread that goes ahead, where there is one.
#pragma once

#include <cstdint>
#include <span>

#include "collector/log/event.h"

namespace gpupeak::collector {

class EventPass {
 public:
  virtual ~EventPass() = default;
  /// The next events, and room for a note on each, which goes with it.
  virtual void pass(std::span<const Event> events, std::span<uint32_t> notes) = 0;
};

}  // namespace gpupeak::collector
