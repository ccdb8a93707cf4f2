// aarch64's jmp_buf: see jump_target.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/elf_lookup.h"

namespace gpupeak::preload {

/// The stack pointer in a glibc jmp_buf: its fourteenth word, mangled by a word that the loader
/// has. 0 if the loader has no such word (musl): then the thread's next hook finds out what the
/// jump has left.
inline uintptr_t jump_target(const void* buffer) {
  static constinit std::atomic<const uintptr_t*> known{nullptr};
  const uintptr_t* guard = known.load(std::memory_order_relaxed);
  if (guard == nullptr) {
    guard = static_cast<const uintptr_t*>(find_in("ld-linux-aarch64.so", "__pointer_chk_guard"));
    if (guard == nullptr) return 0;
    known.store(guard, std::memory_order_relaxed);
  }
  return static_cast<const uintptr_t*>(buffer)[13] ^ *guard;
}

}  // namespace gpupeak::preload
