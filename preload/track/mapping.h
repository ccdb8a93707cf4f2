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
void remapped(void* old_at, size_t old_bytes, void* new_at, size_t new_bytes,
              const CallerFrame& caller);

}  // namespace gpupeak::preload
