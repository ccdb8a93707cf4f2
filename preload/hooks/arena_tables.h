// The functions of arenas (sub-allocators) that are replaced, so that what they hand out is seen:
// virtual functions of a class that no library exports, or exported ones. Arenas that keep
// statistics ("BFC", best fit with coalescing: XLA's, and ONNX Runtime's, which comes from it) have
// to bear out what is seen of them; else all stays as it was. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/virtual_table.h"
#include "track/arena_objects.h"

namespace gpupeak::preload {

enum ArenaFunction : uint64_t {
  kArenaAlloc,
  kArenaAllocOther,  ///< with a stream, or attributes
  kArenaReserve,
  kArenaFree,
  kArenaDestroy,
  kArenaDelete,
  kArenaFunctions
};
constexpr size_t kNoSlot = SIZE_MAX;
constexpr uint8_t kNoArgument = UINT8_MAX;

/// A class of arenas in the releases that have its functions in these places; or functions that
/// belong to no class. Arguments are counted from 0, which is the object of a member function.
struct ArenaClass {
  ArenaMaker* maker;
  size_t slot[kArenaFunctions];    ///< kNoSlot: it has none
  uint8_t size_at;                 ///< bytes that are asked for
  uint8_t address_at = 1;          ///< the block that is given back
  uint8_t given_at = kNoArgument;  ///< where it writes how many bytes it has handed out
  uint8_t object_at = 0;           ///< which arena it is; kNoArgument: there is one alone
  // Of classes whose sizes are told by their statistics.
  size_t statistics = kNoSlot;
  ArenaTotals (*totals)(uintptr_t statistics, uint64_t object) = nullptr;
  /// Of classes whose requests may wait until another thread gives a block back: what a block at an
  /// address has. kNoSlot: no request waits.
  size_t block_size = kNoSlot;
};

/// Takes the tables over, or none of them. Again for the same tables it does nothing. `of` must
/// stay.
bool take_over_arena_tables(const ArenaClass& of, const VirtualTable* tables, size_t count);

/// Whether tables of the library around `inside` are taken over now.
bool has_arena_tables(const void* inside);

/// Functions of no class: what to call in the place of each, by ArenaFunction; 0 where `real` is 0.
/// nullptr: there is no room. Again for the same functions it gives the same. `of` must stay.
const uintptr_t* trampolines_for(const ArenaClass& of, const uintptr_t (&real)[kArenaFunctions]);

/// All tables as they were: at our end.
void put_back_arena_tables();
/// longjmp is about to make `target` the stack pointer: the calls that this leaves are over.
void leave_arena_calls_for(uintptr_t target);
/// After a dlclose.
void forget_unloaded_arena_tables();

}  // namespace gpupeak::preload
