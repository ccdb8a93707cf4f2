// The functions that were taken over, of each class of each loaded library: between pool_tables.cc,
// which takes them over, pool_thunks_*.S, which stands in their place, and pool_calls.cc, which
// notes the calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hooks/pool_call.h"
#include "hooks/pool_tables.h"

namespace gpupeak::preload {

/// A table. Its place says which thunks are its own, so that a call finds its real function
/// whatever it is called with.
struct PoolTable {
  /// The slots of a class; of functions that have no class, the code of one. 0: this place is free.
  std::atomic<uintptr_t> at{0};
  bool has_slots = false;
  const PoolClass* of = nullptr;
  uintptr_t real[kPoolFunctions] = {};
  uintptr_t statistics = 0, block_size = 0;
  std::atomic<bool> proven{false};  ///< a request's statistics were as they must be
  std::atomic<bool> off{false};     ///< they were not
};
constexpr size_t kMostPoolTables = 16;  // as many as pool_thunks_*.S has thunks for
extern PoolTable g_pool_tables[kMostPoolTables];
extern "C" const uintptr_t gpupeak_pool_thunks[kMostPoolTables][kPoolFunctions];

/// Puts all of one table back: what is taken for a pool's function is another one.
void put_back_pool_table(PoolTable& table);

struct PoolStep {
  uintptr_t real;
  uint64_t comes_back;  ///< 0: goes on to the real function as if it had been called itself
};
extern "C" PoolStep gpupeak_pool_before(PoolCall* call);
extern "C" void gpupeak_pool_after(PoolCall* call);
/// What C++ calls a personality routine: an exception passes the thunk.
extern "C" int gpupeak_pool_left(int version, int actions, uint64_t exception_class,
                                 void* exception, void* context);

}  // namespace gpupeak::preload
