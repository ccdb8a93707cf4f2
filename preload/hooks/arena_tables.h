// Replaces functions of arenas (sub-allocators), so that the blocks that they hand out are seen:
// virtual functions of a class that no library exports, or exported functions. Some arenas keep
// statistics ("BFC", best fit with coalescing: XLA's, and ONNX Runtime's, which comes from it).
// Their statistics must agree with what is seen; else all functions are put back. HOOK-SAFE,
// outside any HookScope.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/virtual_table.h"
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

/// longjmp is about to make `target` the stack pointer. The calls that the jump leaves are over.
void leave_arena_calls_for(uintptr_t target);

// The replaced functions of each class of each loaded library. arena_tables.cc replaces them,
// arena_thunks_*.S has the thunks in their place, and arena_calls.cc notes the calls.

#if defined(__x86_64__)

/// What the thunks of arena_thunks_*.S save: the caller's registers. It lies right below the
/// caller's frame on the stack.
struct ArenaCall {
  uint64_t arguments[6];  ///< rdi, rsi, rdx, rcx, r8, r9; rdx holds a result after the call
  uint64_t which;         ///< table * kArenaFunctions + function
  uint64_t result;        ///< rax, before the call and after it
  uint8_t vectors[128];
  uint64_t frame_pointer, return_address;  ///< the caller's
};

#else  // aarch64

struct ArenaCall {
  uint64_t arguments[6];  ///< x0 to x5
  uint64_t x6, x7, x8;
  uint64_t which;                  ///< table * kArenaFunctions + function
  uint64_t result, second_result;  ///< x0 and x1, after the call
  uint8_t vectors[128];
  uint64_t frame_pointer, return_address;  ///< the caller's
};

#endif

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
