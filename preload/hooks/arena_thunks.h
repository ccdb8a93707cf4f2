// The functions that were taken over, of each class of each loaded library: between
// arena_tables.cc, which takes them over, arena_thunks_*.S, which stands in their place, and
// arena_calls.cc, which notes the calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hooks/arena_call.h"
#include "hooks/arena_tables.h"

namespace gpupeak::preload {

/// A table. Its place says which thunks are its own, so that a call finds its real function
/// whatever it is called with.
struct ArenaFunctions {
  /// The slots of a class; of functions that have no class, the code of one. 0: this place is free.
  std::atomic<uintptr_t> at{0};
  bool has_slots = false;
  const ArenaClass* of = nullptr;
  uintptr_t real[kArenaFunctions] = {};
  uintptr_t statistics = 0, block_size = 0;
  std::atomic<bool> proven{false};  ///< a request's statistics were as they must be
  std::atomic<bool> off{false};     ///< they were not
};
constexpr size_t kMostArenaTables = 16;  // as many as arena_thunks_*.S has thunks for
extern ArenaFunctions g_arena_tables[kMostArenaTables];
extern "C" const uintptr_t gpupeak_arena_thunks[kMostArenaTables][kArenaFunctions];

/// Puts all of one table back: what is taken for an arena's function is another one.
void put_back_arena_table(ArenaFunctions& table);

struct ArenaStep {
  uintptr_t real;
  uint64_t comes_back;  ///< 0: goes on to the real function as if it had been called itself
};
extern "C" ArenaStep gpupeak_arena_before(ArenaCall* call);
extern "C" void gpupeak_arena_after(ArenaCall* call);
/// What C++ calls a personality routine: an exception passes the thunk.
extern "C" int gpupeak_arena_left(int version, int actions, uint64_t exception_class,
                                  void* exception, void* context);

}  // namespace gpupeak::preload
