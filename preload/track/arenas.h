// Logs the events of arenas. Called for those that tell us what they hand out (through gpupeak.h or
// NVTX), and by the files for frameworks' arenas. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>

#include "gpupeak/log_format.h"
#include "stack/stack.h"
#include "thread/emit.h"
#include "track/last_use.h"
#include "track/phases.h"

namespace gpupeak::preload {

// Logs that an arena hands out a block, or takes it back. Inlined, since PyTorch does so as often
// as kernels are launched. HOOK-SAFE, inside a HookScope of a process that records.

/// The arena's own sums after a block came or went, in bytes. Value + 1; 0: the arena does not say.
struct ArenaSays {
  uint64_t in_use_plus_1 = 0, reserved_plus_1 = 0;
};

/// Logs a block of `bytes`, for a request of `asked` bytes. `name`: string id. 0: no name, or
/// `asked` is not known. To record the block's uses, call arena_use_began() or torch_use_began()
/// afterwards.
__attribute__((always_inline)) inline void log_arena_block(uint64_t arena, uint64_t address,
                                                           uint64_t bytes, uint32_t name,
                                                           uint32_t stack, const ArenaSays& says,
                                                           uint64_t asked) {
  RecordInPlace record;
  if (!record) return;
  record.u(arena).u(address).id(bytes).u(name).id(stack);
  record.u(says.in_use_plus_1).u(says.reserved_plus_1).u(asked).end(GPUPEAK_REC_ARENA_ALLOC);
}

/// Call it before the arena may hand the memory out again. `bytes`: 0 if the arena does not say.
/// `use_ended`: arena_use_ended() or torch_use_ended().
__attribute__((always_inline)) inline void log_arena_free(
    uint64_t arena, uint64_t address, uint64_t bytes, const ArenaSays& says,
    SeenUses (*use_ended)(uint64_t arena, uint64_t address) = arena_use_ended) {
  SeenUses uses;
  if (watches_all_uses()) uses = use_ended(arena, address);
  RecordInPlace record;
  if (!record) return;
  record.u(arena).u(address).id(bytes).u(says.in_use_plus_1).u(says.reserved_plus_1);
  if (uses.is_known) {
    record.id(uses.count + 1);
    if (uses.count > 0) uses.put_times(record);
  }
  record.end(GPUPEAK_REC_ARENA_FREE);
}

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

// Logs what PyTorch's caching allocator hands out, as one arena for each device. The caller holds
// the allocator's own lock, so that a device's events are in the order in which they happened.
// HOOK-SAFE, outside any HookScope.

/// `bytes`: as the allocator rounded them. `says`: the allocator's own totals after the event.
void torch_block_given(int device, uint64_t address, uint64_t bytes, const ArenaSays& says,
                       const CallerFrame& caller);
void torch_block_taken(int device, uint64_t address, uint64_t bytes, const ArenaSays& says);
/// The allocator could not serve a request.
void torch_failed(int device, uint64_t bytes, const ArenaSays& says, const CallerFrame& caller);

}  // namespace gpupeak::preload
