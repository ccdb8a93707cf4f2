// Arenas whose class no library exports ("BFC", best fit with coalescing: XLA's, and ONNX
// Runtime's, which comes from it): virtual functions of theirs are replaced where the library and
// the class are those that are known, and the arena's own statistics bear it out; else all stays as
// it was. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/virtual_table.h"
#include "track/pool_bfc.h"

namespace gpupeak::preload {

enum BfcArenaFunction : uint64_t {
  kBfcAlloc,
  kBfcAllocOther,  ///< with a stream, or attributes
  kBfcReserve,
  kBfcFree,  ///< (address)
  kBfcDestroy,
  kBfcDelete,
  kBfcArenaFunctions
};
constexpr size_t kNoSlot = SIZE_MAX;

/// A class of arenas in the releases that have its functions in these places.
struct BfcClass {
  BfcFramework framework;
  size_t slot[kBfcArenaFunctions];  ///< kNoSlot: it has none
  bool size_comes_second;           ///< (alignment, size, …), not (size, …)
  size_t statistics;
  BfcArenaTotals (*totals)(uintptr_t statistics, uint64_t object);
  /// Of classes whose requests may wait until another thread gives a block back: what a block at an
  /// address has. kNoSlot: no request waits.
  size_t block_size;
};

/// Takes the tables over, or none of them. Again for the same tables it does nothing. `of` must
/// stay.
bool take_over_bfc_tables(const BfcClass& of, const VirtualTable* tables, size_t count);
/// All tables as they were: at our end.
void put_back_bfc_arenas();
/// longjmp is about to make `target` the stack pointer: the calls that this leaves are over.
void leave_bfc_arena_calls_for(uintptr_t target);
/// After a dlclose.
void forget_unloaded_bfc_arenas();

}  // namespace gpupeak::preload
