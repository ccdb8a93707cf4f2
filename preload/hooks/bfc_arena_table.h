// The virtual functions that were taken over, of each table of each loaded library: between
// bfc_arena.cc, which takes them over, bfc_arena_*.S, which stands in their place, and
// bfc_arena_calls.cc, which notes the calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hooks/bfc_arena.h"
#include "hooks/bfc_arena_call.h"

namespace gpupeak::preload {

/// A table. Its place says which thunks are its own, so that a call finds its real function
/// whatever it is called with.
struct BfcArenaTable {
  std::atomic<uintptr_t*> slots{nullptr};  ///< nullptr: this place is free
  const BfcClass* of = nullptr;
  uintptr_t real[kBfcArenaFunctions] = {};
  uintptr_t statistics = 0, block_size = 0;
  std::atomic<bool> proven{false};  ///< a request's statistics were as they must be
  std::atomic<bool> off{false};     ///< they were not
};
constexpr size_t kMostBfcArenaTables = 8;  // as many as bfc_arena_*.S has thunks for
extern BfcArenaTable g_bfc_arena_tables[kMostBfcArenaTables];
extern "C" const uintptr_t gpupeak_bfc_arena_thunks[kMostBfcArenaTables][kBfcArenaFunctions];

/// Puts all of one table back: what is taken for an arena's function is another one.
void put_back_bfc_arena_table(BfcArenaTable& table);

struct BfcArenaStep {
  uintptr_t real;
  uint64_t comes_back;  ///< 0: goes on to the real function as if it had been called itself
};
extern "C" BfcArenaStep gpupeak_bfc_arena_before(BfcArenaCall* call);
extern "C" void gpupeak_bfc_arena_after(BfcArenaCall* call);
/// What C++ calls a personality routine: an exception passes the thunk.
extern "C" int gpupeak_bfc_arena_left(int version, int actions, uint64_t exception_class,
                                      void* exception, void* context);

}  // namespace gpupeak::preload
