// Logs the events of arenas. Called for those that tell us what they hand out (through gpupeak.h or
// NVTX), and by the files for frameworks' arenas. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>

#include "gpupeak/log_format.h"
#include "stack/stack.h"
#include "track/phases.h"

namespace gpupeak::preload {

/// Logs a new arena and returns its number, unique in the process; 0: not recording. `address` and
/// `bytes`: the memory that it manages, 0 if not known. `device`: whose memory it hands out; -1:
/// that follows from where its blocks lie.
uint64_t arena_create(const Name& name, uint64_t address, uint64_t bytes, int device = -1);
/// The arena was destroyed or reset: all its blocks are free.
void arena_event(uint64_t arena, gpupeak_arena_event event);
/// The arena handed out a block. If the address is in use already, its block has another size or
/// name from now on. `name`: empty if it has none.
void arena_allocated(uint64_t arena, uint64_t address, uint64_t bytes, const Name& name,
                     const CallerFrame& caller);
/// Call it before the arena may hand the memory out again.
void arena_freed(uint64_t arena, uint64_t address);

/// What an arena says of itself when it refuses a request, in bytes. Value + 1; 0: not known.
struct Refusal {
  uint64_t in_use_plus_1 = 0, reserved_plus_1 = 0, limit_plus_1 = 0;
  int device = -1;         ///< whose memory it hands out; -1: the current device
  bool ask_driver = true;  ///< false if a jump may have left the driver in the middle of a call
};
/// Logs a refused request, with what the driver says is free, if it is loaded. `stack`: who made
/// the request.
void arena_refused(uint64_t arena, uint64_t bytes, const Refusal& refusal, uint32_t stack);

}  // namespace gpupeak::preload
