// Keeps which device each context is on, and frees what ends with a context. HOOK-SAFE; called by
// calls/ inside a DriverScope, outside any HookScope.
#pragma once

#include <cuda.h>

#include "gpupeak/log_format.h"
#include "track/api_call.h"

namespace gpupeak::preload {

/// A context has ended: blocks of the kinds that end with their context are free (linear, managed,
/// pinned, registered, arrays; memory_kinds.def).
void context_ended(const ApiCall& call, CUcontext context, gpupeak_context_event event);
void context_began(CUcontext context, int device);

/// The device of a context that is alive; kNoDevice if it was never seen.
int device_of_context(CUcontext context);
/// The end of a green context frees nothing. Only its device is kept, from creation to destruction.
void green_context_began(const void* green, int device);
int device_of_green_context(const void* green);
void green_context_ended(const void* green);

/// In a forked child. Holds the book's lock.
void forget_contexts();

}  // namespace gpupeak::preload
