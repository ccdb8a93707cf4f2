// Records requests for the host's memory that were refused. HOOK-SAFE, outside any HookScope; errno
// is left alone.
#pragma once

#include <cstddef>

#include "gpupeak/log_format.h"
#include "stack/stack.h"

namespace gpupeak::preload {

/// `api`: the function that was called. `error`: the errno with which it failed. The request is
/// recorded if `error` is ENOMEM, with the limit that it would have passed; at most 1000 of them.
void host_allocation_failed(gpupeak_kind kind, const char* api, size_t bytes, int error,
                            const CallerFrame& caller);

}  // namespace gpupeak::preload
