// A request for the host's memory that was refused. HOOK-SAFE, outside any HookScope; errno is left
// alone.
#pragma once

#include <cstddef>

#include "gpupeak/log_format.h"
#include "stack/stack.h"

namespace gpupeak::preload {

/// `api`: the function that was called; `error`: why it failed, an errno. Recorded if that is
/// ENOMEM, with the limit that the request would have passed, as long as there are few of them.
void host_allocation_failed(gpupeak_kind kind, const char* api, size_t bytes, int error,
                            const CallerFrame& caller);

}  // namespace gpupeak::preload
