// Logs the mappings that the mmap hooks report, in every host mode but off. Which bytes of them are
// live is the reader's work, since an unmap may cut mappings anywhere. HOOK-SAFE, outside any
// HookScope.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/stack.h"
#include "track/counted_mappings.h"

namespace gpupeak::preload {

/// brk was moved by others than malloc, whose own calls no hook sees. Before the real call where
/// memory is given back.
void brk_moves(void* from, intptr_t by, const CallerFrame& caller);
void mapped(void* at, size_t bytes, int prot, int flags, const CallerFrame& caller);
void reprotected(void* at, size_t bytes, int prot);

/// What a call is about to take away: logged as gone, or no longer counted (counted_mappings.h).
struct Leaving {
  bool logged = false;
  CountedPieces counted;
};
/// Call it before munmap, and before a mremap that takes the old range away: another thread may get
/// the addresses before the call returns.
Leaving unmapping(void* at, size_t bytes);
Leaving remapping(void* old_at, size_t old_bytes);
/// The kernel refused it: nothing has gone.
void stays(const Leaving& leaving, void* at, size_t bytes);
/// After a mremap. If it leaves the old range there, with 0 old bytes.
void remapped(void* old_at, size_t old_bytes, void* new_at, size_t new_bytes,
              const CallerFrame& caller);

}  // namespace gpupeak::preload
