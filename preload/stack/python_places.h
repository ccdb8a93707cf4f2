// Where a thread's Python frames stand among its native ones: each inside of the native frame that
// runs it. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "stack/captured.h"
#include "stack/stack_cache.h"

namespace gpupeak::preload {

/// `node` is a native stack that is known and unchanged. Returns its node with the Python frames
/// that it has now; 0 if their places are not known, so that the stack has to be captured.
uint32_t known_call_site(StackCache& cache, uint32_t node);
/// The node of the captured stack `node` with its Python frames; `node` itself if it has none.
uint32_t with_python_frames(StackCache& cache, const Captured& captured, uint32_t node);

}  // namespace gpupeak::preload
