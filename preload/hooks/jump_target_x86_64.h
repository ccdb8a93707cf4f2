// x86-64's jmp_buf: see jump_target.h.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// The stack pointer in a glibc jmp_buf: its seventh word, mangled.
inline uintptr_t jump_target(const void* buffer) {
  uintptr_t target = static_cast<const uintptr_t*>(buffer)[6];
  asm("ror $17, %0\n\txor %%fs:0x30, %0" : "+r"(target) : : "cc");
  return target;
}

}  // namespace gpupeak::preload
