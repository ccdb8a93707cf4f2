// Logs the mappings that the mmap hooks report, in every host mode but off. Which bytes of them are
// live is the reader's work, since an unmap may cut mappings anywhere. HOOK-SAFE, outside any
// HookScope.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpupeak/log_format.h"
#include "stack/stack.h"

namespace gpupeak::preload {

// The mappings of a process that is only counted. If the process gets a log later, the log begins
// with the mappings of then. HOOK-SAFE, inside a HookScope.

struct CountedMapping {
  uint64_t begin, end;
  int prot;
  gpupeak_kind kind;
};
/// What a call took out of the account, as far as there is room.
struct CountedPieces {
  static constexpr uint32_t kMost = 4;
  uint32_t count = 0;
  CountedMapping at[kMost];
};

/// How many bytes of writable anonymous memory are mapped now.
uint64_t counted_mapping_bytes();
/// Writes a MAP record for each mapping, once the log is open, and forgets the mappings.
void log_counted_mappings();
/// In a forked child.
void reset_counted_mappings();

/// brk was moved by others than malloc, whose own calls no hook sees. Before the real call where
/// memory is given back.
void brk_moves(void* from, intptr_t by, const CallerFrame& caller);
void mapped(void* at, size_t bytes, int prot, int flags, const CallerFrame& caller);
void reprotected(void* at, size_t bytes, int prot);

/// What a call is about to take away: logged as gone, or no longer counted.
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
