// Logs what PyTorch's caching allocator hands out, as one arena for each device. The caller holds
// the allocator's own lock, so that a device's events are in the order in which they happened.
// HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>

#include "stack/stack.h"
#include "track/arena_events.h"

namespace gpupeak::preload {

/// `bytes`: as the allocator rounded them. `says`: the allocator's own totals after the event.
void torch_block_given(int device, uint64_t address, uint64_t bytes, const ArenaSays& says,
                       const CallerFrame& caller);
void torch_block_taken(int device, uint64_t address, uint64_t bytes, const ArenaSays& says);
/// The allocator could not serve a request.
void torch_failed(int device, uint64_t bytes, const ArenaSays& says, const CallerFrame& caller);

}  // namespace gpupeak::preload
