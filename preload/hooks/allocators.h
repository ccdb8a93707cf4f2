// Follows allocators beside the C library's (tcmalloc, mimalloc, jemalloc, oneTBB's), whether they
// are preloaded, linked, or part of the program. Their operator new and delete and their own
// functions do not call malloc's family, which we hook. A library or program with such an allocator
// is known by a function that only that allocator has. Then each function of allocator_table.def
// that it defines is replaced at its entry. In an attached program no code is replaced. There the
// slots that lead to an allocator's library are (attach_slots).
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "base/malloc_entry.h"

namespace gpupeak::preload {

// What the hooks of other allocators need of malloc's hooks.

/// A function of the allocator that our hooks call has moved: its code at `from` is replaced, and
/// `to` does the same.
void real_allocator_moved(const void* from, const void* to);

enum class AllocatorCall : uint8_t { kAllocate, kStore, kReallocate, kResize, kFree };

/// A row of allocator_table.def.
struct AllocatorFunction {
  static constexpr uint8_t kNone = 6;        ///< no argument: only six are read, in registers
  static constexpr size_t kPlainNames = 13;  ///< the first rows: malloc's family as it is
  const char* name;
  AllocatorCall call;
  uint8_t block, bytes, count;  ///< numbers of arguments; see the table
};

/// A function that was replaced.
struct ReplacedFunction {
  const void* entry = nullptr;     ///< the function; nullptr: it was not replaced
  const void* original = nullptr;  ///< code that does what the function did
  BlockSize* usable_bytes = nullptr;
};

/// The number of rows of the table; each row, its function, and the hook in that function's place.
size_t allocator_function_count();
const AllocatorFunction& allocator_function(size_t row);
ReplacedFunction& replaced_function(size_t row);
const void* allocator_hook(size_t row);

/// Whether a library is an allocator and nothing else. All its callers call it through slots.
bool is_allocator_library(const dl_phdr_info& object);
/// Whether an attached program has an allocator beside malloc that no slot leads to.
bool leaves_allocator_out();

}  // namespace gpupeak::preload
