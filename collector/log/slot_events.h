// Goes through a log's events, without the heap's, thread by thread, for readers that need only the
// order within a thread. ModelTensors and ActivationPlans use it.
#pragma once

#include <array>
#include <cstdint>

#include "collector/log/log_reader.h"
#include "collector/log/slot_decoder.h"

namespace gpupeak::collector {

/// Calls `begin()` before each slot's events, and `visit(event)` with each of them.
template <typename Begin, typename Visit>
void for_each_slot_event(const LogReader& log, Begin begin, Visit visit) {
  std::array<Event, 512> events;
  for (uint32_t slot = 0; slot < log.slots().size(); ++slot) {
    if (log.slots()[slot].is_heap) continue;
    begin();
    SlotDecoder decoder(log, slot);
    for (size_t count; (count = decoder.next(events, UINT64_MAX)) != 0;) {
      for (size_t i = 0; i < count; ++i) visit(events[i]);
    }
  }
}

}  // namespace gpupeak::collector
