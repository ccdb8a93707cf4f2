// The virtual functions that were taken over, of each table of each loaded ONNX Runtime: between
// ort_arena.cc, which takes them over, ort_arena_*.S, which stands in their place, and
// ort_arena_calls.cc, which notes the calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hooks/ort_arena_call.h"

namespace gpupeak::preload {

enum OrtArenaFunction : uint64_t {
  kOrtAlloc,          ///< (size)
  kOrtAllocOnStream,  ///< (size, stream)
  kOrtReserve,        ///< (size)
  kOrtFree,           ///< (address)
  kOrtDestroy,
  kOrtDelete,
  kOrtArenaFunctions
};

/// A table. Its place says which thunks are its own, so that a call finds its real function
/// whatever it is called with.
struct OrtArenaTable {
  std::atomic<uintptr_t*> slots{nullptr};  ///< nullptr: this place is free
  size_t slot[kOrtArenaFunctions] = {};    ///< where they stand; SIZE_MAX: nowhere
  uintptr_t real[kOrtArenaFunctions] = {};
  uintptr_t statistics = 0;         ///< void (arena, AllocatorStats*)
  std::atomic<bool> proven{false};  ///< a request's statistics were as they must be
  std::atomic<bool> off{false};     ///< they were not
};
constexpr size_t kMostOrtArenaTables = 8;  // as many as ort_arena_*.S has thunks for
extern OrtArenaTable g_ort_arena_tables[kMostOrtArenaTables];
extern "C" const uintptr_t gpupeak_ort_arena_thunks[kMostOrtArenaTables][kOrtArenaFunctions];

/// Puts all of one table back: what is taken for an arena's function is another one.
void put_back_ort_arena_table(OrtArenaTable& table);

struct OrtArenaStep {
  uintptr_t real;
  uint64_t comes_back;  ///< 0: goes on to the real function as if it had been called itself
};
extern "C" OrtArenaStep gpupeak_ort_arena_before(OrtArenaCall* call);
extern "C" void gpupeak_ort_arena_after(OrtArenaCall* call);
/// What C++ calls a personality routine: an exception passes the thunk.
extern "C" int gpupeak_ort_arena_left(int version, int actions, uint64_t exception_class,
                                      void* exception, void* context);

}  // namespace gpupeak::preload
