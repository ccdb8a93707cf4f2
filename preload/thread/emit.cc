#include "thread/emit.h"

#include <atomic>

#include "base/compiler.h"
#include "stack/trie.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {

GPUPEAK_HOT uint32_t capture_stack(const CallerFrame& caller) {
  ThreadSlot* slot = thread_slot();
  if (slot == nullptr) return 0;
  const uint32_t node = standing_stack(slot->stacks, caller);
  return node != 0 ? node : capture_stack(slot->stacks, caller);
}

GPUPEAK_HOT uint32_t capture_call_site(const CallerFrame& caller) {
  ThreadSlot* slot = thread_slot();
  return slot != nullptr ? capture_call_site(slot->stacks, caller) : 0;
}

void forget_stack_memory(uintptr_t begin, uintptr_t end) {
  if (g_guessing.load(std::memory_order_relaxed) && any_slot_reads(begin, end)) {
    drop_cached_stacks();
  }
}

}  // namespace gpupeak::preload
