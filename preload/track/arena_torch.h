// What PyTorch's caching allocator hands out, as one arena for each device. HOOK-SAFE, outside any
// HookScope; the caller holds the allocator's own lock, so that a device's events come in the order
// in which they happened.
#pragma once

#include <cstdint>

#include "stack/stack.h"
#include "track/arena_events.h"

namespace gpupeak::preload {

/// `bytes` as the allocator rounded them; `says`: its own totals after it.
void torch_block_given(int device, uint64_t address, uint64_t bytes, const ArenaSays& says,
                       const CallerFrame& caller);
void torch_block_taken(int device, uint64_t address, uint64_t bytes, const ArenaSays& says);
/// A request that it could not serve.
void torch_failed(int device, uint64_t bytes, const ArenaSays& says, const CallerFrame& caller);

}  // namespace gpupeak::preload
