// What the mmap hooks report. HOOK-SAFE, outside any HookScope. Mappings are logged in every host
// mode but off; which bytes of them are live is the reader's work, since unmaps may cut them
// anywhere.
#pragma once

#include <cstddef>

#include "stack/stack.h"

namespace gpupeak::preload {

void mapped(void* at, size_t bytes, int prot, int flags, const CallerFrame& caller);
void unmapping(void* at, size_t bytes);  ///< before the real call, which is known to be valid
void reprotected(void* at, size_t bytes, int prot);
/// A mremap that takes the old range away, in two steps: before the real call, then exactly one of
/// the others. False if nothing was logged: then remapped() alone. One that leaves it there is
/// logged by remapped() alone, with 0 old bytes.
bool remapping(void* old_at, size_t old_bytes);
void not_remapped(void* old_at, size_t old_bytes);
void remapped(void* old_at, size_t old_bytes, void* new_at, size_t new_bytes,
              const CallerFrame& caller);

}  // namespace gpupeak::preload
