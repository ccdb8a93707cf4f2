// The replaced functions of each class of each loaded library. arena_tables.cc replaces them,
// arena_thunks_*.S has the thunks in their place, and arena_calls.cc notes the calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hooks/arena_call.h"
#include "hooks/arena_tables.h"

namespace gpupeak::preload {

/// A table of functions. Its place in g_arena_tables says which thunks are its own, so that a call
/// finds its real function whatever its arguments are.
struct ArenaFunctions {
  /// The slots of a class, or the code of kArenaAlloc for functions of no class. 0: a free place.
  std::atomic<uintptr_t> at{0};
  bool has_slots = false;
  const ArenaClass* of = nullptr;
  uintptr_t real[kArenaFunctions] = {};
  uintptr_t statistics = 0, block_size = 0;
  std::atomic<bool> proven{false};  ///< the statistics agreed with a request
  std::atomic<bool> off{false};     ///< they did not: its calls are not noted any more
};
constexpr size_t kMostArenaTables = 16;  // arena_thunks_*.S has thunks for so many
extern ArenaFunctions g_arena_tables[kMostArenaTables];
extern "C" const uintptr_t gpupeak_arena_thunks[kMostArenaTables][kArenaFunctions];

/// Puts back all functions of a table, at our end, or if they turn out not to be an arena's.
void put_back_arena_table(ArenaFunctions& table);

struct ArenaStep {
  uintptr_t real;
  uint64_t comes_back;  ///< 0: the thunk jumps to the real function; else it calls that
};
extern "C" ArenaStep gpupeak_arena_before(ArenaCall* call);
extern "C" void gpupeak_arena_after(ArenaCall* call);
/// The thunks' personality routine (C++ calls it so): an exception passes the thunk.
extern "C" int gpupeak_arena_left(int version, int actions, uint64_t exception_class,
                                  void* exception, void* context);

}  // namespace gpupeak::preload
