// Where a thread's Python frames stand among its native ones: each inside of the native frame that
// runs it. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "stack/captured.h"
#include "stack/stack_cache.h"

namespace gpupeak::preload {

/// The node of the captured stack, `node`, with its Python frames; `node` itself if it has none.
uint32_t with_python_frames(StackCache& cache, const Captured& captured, uint32_t node);

}  // namespace gpupeak::preload
