// Replaces functions of arenas (sub-allocators), so that the blocks that they hand out are seen:
// virtual functions of a class that no library exports, or exported functions. Some arenas keep
// statistics ("BFC", best fit with coalescing: XLA's, and ONNX Runtime's, which comes from it).
// Their statistics must agree with what is seen; else all functions are put back. HOOK-SAFE,
// outside any HookScope.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/imports.h"
#include "track/arena_objects.h"

namespace gpupeak::preload {

enum ArenaFunction : uint64_t {
  kArenaAlloc,
  kArenaAllocOther,  ///< allocates with a stream, or with attributes
  kArenaReserve,
  kArenaFree,
  kArenaDestroy,
  kArenaDelete,
  kArenaFunctions
};
constexpr size_t kNoSlot = SIZE_MAX;
constexpr uint8_t kNoArgument = UINT8_MAX;

/// A class of arenas, for the releases that have its functions in these places; or functions that
/// belong to no class. Arguments are counted from 0, which is the object of a member function.
struct ArenaClass {
  ArenaMaker* maker;
  size_t slot[kArenaFunctions];    ///< kNoSlot: it has no such function
  uint8_t size_at;                 ///< the argument with the bytes that are asked for
  uint8_t address_at = 1;          ///< the argument with the block that is given back
  uint8_t given_at = kNoArgument;  ///< points to where it writes how many bytes it handed out
  uint8_t object_at = 0;           ///< the arena; kNoArgument: there is only one arena
  // For classes whose statistics say how large blocks are: the slot of the function for statistics,
  // and our function that calls it and reads the result.
  size_t statistics = kNoSlot;
  ArenaTotals (*totals)(uintptr_t statistics, uint64_t object) = nullptr;
  /// The slot of the function for the size of a block, by its address. For classes with requests
  /// that may wait until another thread gives a block back. kNoSlot: no request waits.
  size_t block_size = kNoSlot;
};

/// Replaces the functions of all these tables, or of none. A second call for the same tables does
/// nothing. `of` must stay at its address.
bool take_over_arena_tables(const ArenaClass& of, const VirtualTable* tables, size_t count);

/// Whether functions in tables of the library around `inside` are replaced now.
bool has_arena_tables(const void* inside);

/// Trampolines for functions of no class, by ArenaFunction, to be called in place of `real` (0: no
/// such function). nullptr: there is no room. A second call for the same functions returns the
/// same. `of` must stay at its address.
const uintptr_t* trampolines_for(const ArenaClass& of, const uintptr_t (&real)[kArenaFunctions]);

}  // namespace gpupeak::preload
