// Logs that an arena hands out a block, or takes it back. Inlined, since PyTorch does so as often
// as kernels are launched. HOOK-SAFE, inside a HookScope of a process that records.
#pragma once

#include <cstdint>

#include "gpupeak/log_format.h"
#include "thread/record_in_place.h"
#include "track/last_use.h"

namespace gpupeak::preload {

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
  if (ThreadSlot* const slot = RecordInPlace::find_slot()) {
    RecordInPlace record(*slot);
    record.u(arena).u(address).id(bytes).u(name).id(stack);
    record.u(says.in_use_plus_1).u(says.reserved_plus_1).u(asked).end(GPUPEAK_REC_ARENA_ALLOC);
  }
}

/// Call it before the arena may hand the memory out again. `bytes`: 0 if the arena does not say.
/// `use_ended`: arena_use_ended() or torch_use_ended().
__attribute__((always_inline)) inline void log_arena_free(
    uint64_t arena, uint64_t address, uint64_t bytes, const ArenaSays& says,
    SeenUses (*use_ended)(uint64_t arena, uint64_t address) = arena_use_ended) {
  SeenUses uses;
  if (watches_all_uses()) uses = use_ended(arena, address);
  ThreadSlot* const slot = RecordInPlace::find_slot();
  if (__builtin_expect(slot == nullptr, 0)) return;
  RecordInPlace record(*slot);
  record.u(arena).u(address).id(bytes).u(says.in_use_plus_1).u(says.reserved_plus_1);
  if (uses.is_known) {
    record.id(uses.count + 1);
    if (uses.count > 0) uses.put_times(record);
  }
  record.end(GPUPEAK_REC_ARENA_FREE);
}

}  // namespace gpupeak::preload
