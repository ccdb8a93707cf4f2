// Logs the mappings that the mmap hooks report, in every host mode but off. Which bytes of them are
// live is the reader's work, since an unmap may cut mappings anywhere. HOOK-SAFE, outside any
// HookScope.
#pragma once

#include <cstddef>

#include "stack/stack.h"

namespace gpupeak::preload {

void mapped(void* at, size_t bytes, int prot, int flags, const CallerFrame& caller);
void unmapping(void* at, size_t bytes);  ///< before the real call, which is known to be valid
void reprotected(void* at, size_t bytes, int prot);
/// Call it before a mremap that takes the old range away. If it returns true, call exactly one of
/// the next two after the real call. False: nothing was logged, so only call remapped() after a
/// success. For a mremap that leaves the old range there, only call remapped(), with 0 old bytes.
bool remapping(void* old_at, size_t old_bytes);
void not_remapped(void* old_at, size_t old_bytes);
void remapped(void* old_at, size_t old_bytes, void* new_at, size_t new_bytes,
              const CallerFrame& caller);

}  // namespace gpupeak::preload
