// Allocators beside the C library's (tcmalloc, mimalloc, jemalloc, oneTBB's), preloaded, linked, or
// part of the program: their operator new and delete, and their own functions, which go past the
// names of malloc's family. A library or program that has one is found by a function that only such
// have; then each function of allocator_table.def that it defines is replaced at its entry. In a
// program that ran before this library came no code is replaced: slots that lead to a library which
// is an allocator are (attach_slots).
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "base/block_size.h"

namespace gpupeak::preload {

enum class AllocatorCall : uint8_t { kAllocate, kStore, kReallocate, kResize, kFree };

/// A row of allocator_table.def.
struct AllocatorFunction {
  static constexpr uint8_t kNone = 6;  ///< arguments in registers; of more than six none is asked
  const char* name;
  AllocatorCall call;
  uint8_t block, bytes, count;  ///< which arguments; see the table
};

/// What became of one. Only what has been replaced is ever called.
struct ReplacedFunction {
  const void* entry = nullptr;     ///< the function; nullptr: no library has it
  const void* original = nullptr;  ///< does what it did
  BlockSize* usable_bytes = nullptr;
};

/// How many rows the table has, the rows, what became of them, and what stands in their place.
size_t allocator_function_count();
const AllocatorFunction& allocator_function(size_t row);
ReplacedFunction& replaced_function(size_t row);
const void* allocator_hook(size_t row);

/// A library that is an allocator and nothing else: who calls it does so through a slot of his own.
bool is_allocator_library(const dl_phdr_info& object);
/// In a program that ran before: it has an allocator beside malloc that no slot leads to.
bool leaves_allocator_out();

}  // namespace gpupeak::preload
