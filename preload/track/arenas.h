// Sub-allocators that tell us what they hand out, through gpupeak.h or NVTX. HOOK-SAFE, outside any
// HookScope.
#pragma once

#include <cstdint>

#include "gpupeak/log_format.h"
#include "stack/stack.h"
#include "track/phases.h"

namespace gpupeak::preload {

/// A number for a new arena, unique in the process; 0: not recording. `address` and `bytes`: the
/// memory that it manages, 0 if that is not known. `device`: whose memory it shares out; -1: where
/// its blocks lie.
uint64_t arena_create(const Name& name, uint64_t address, uint64_t bytes, int device = -1);
void arena_event(uint64_t arena, gpupeak_arena_event event);
/// Of an address that is in use already: it has another size or name now. `name`: empty if it has
/// none.
void arena_allocated(uint64_t arena, uint64_t address, uint64_t bytes, const Name& name,
                     const CallerFrame& caller);
/// Before the arena may hand the memory out again.
void arena_freed(uint64_t arena, uint64_t address);

/// What a sub-allocator and the driver say when the former refuses a request: value + 1, 0: not
/// known.
struct Refusal {
  uint64_t in_use_plus_1 = 0, reserved_plus_1 = 0, limit_plus_1 = 0;
  int device = -1;         ///< whose memory it shares out; -1: the one that is current
  bool ask_driver = true;  ///< not where a jump may have left the driver in the middle of a call
};
/// Asks the driver how much is free, if it is loaded. `stack`: who asked.
void arena_refused(uint64_t arena, uint64_t bytes, const Refusal& refusal, uint32_t stack);

}  // namespace gpupeak::preload
