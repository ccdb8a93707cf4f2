// The calling thread's stack as a node of the log's trie. For callers that do not have the thread's
// slot at hand; the most frequent events have it. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "stack/stack.h"

namespace gpupeak::preload {

/// They do what the functions of the same name in stack/stack.h do. 0 also if there was no memory
/// for a slot.
uint32_t capture_stack(const CallerFrame& caller);
uint32_t capture_call_site(const CallerFrame& caller);

/// Call it when memory in [begin, end) is about to be unmapped, or cannot be read any more: stacks
/// must not be read there.
void forget_stack_memory(uintptr_t begin, uintptr_t end);

}  // namespace gpupeak::preload
