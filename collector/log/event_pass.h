// Work that must see all events of a log, in their order, before the caller gets them. EventBatches
// does it on the one thread that fills its batches.
#pragma once

#include <cstdint>
#include <span>

#include "collector/log/event.h"

namespace gpupeak::collector {

class EventPass {
 public:
  virtual ~EventPass() = default;
  /// Looks at the next events and may write a note on each, which the caller gets with the event.
  virtual void pass(std::span<const Event> events, std::span<uint32_t> notes) = 0;
};

}  // namespace gpupeak::collector
