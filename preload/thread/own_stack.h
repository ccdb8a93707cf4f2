// The calling thread's stack as a node of the log's trie, for events that are not so frequent that
// they have the thread's slot at hand. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "stack/stack.h"

namespace gpupeak::preload {

/// As those of stack/stack.h; 0 also if there was no memory for a slot.
uint32_t capture_stack(const CallerFrame& caller);
uint32_t capture_call_site(const CallerFrame& caller);

/// Memory in [begin, end) is about to be unmapped, or cannot be read any more.
void forget_stack_memory(uintptr_t begin, uintptr_t end);

}  // namespace gpupeak::preload
