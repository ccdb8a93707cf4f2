// aarch64's faults: see fault.h. HOOK-SAFE.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace gpupeak::preload {

inline uintptr_t code_at_fault(const ucontext_t& context) {
  return context.uc_mcontext.pc;
}

/// Decides by the instruction's class in the table "Loads and Stores" of the architecture's manual.
/// The kernel says the same in a record behind the registers, but emulators leave that out.
inline bool is_store(uint32_t instruction) {
  const auto has = [instruction](uint32_t mask, uint32_t bits) {
    return (instruction & mask) == bits;
  };
  const bool loads = has(1u << 22, 1u << 22);
  // Exclusive, ordered, compare and swap. An exclusive load is the first half of a store.
  if (has(0x3f000000, 0x08000000)) return !has(0x00a00000, 0x00800000) || !loads;
  if (has(0x3a000000, 0x28000000)) return !loads;                        // pairs
  if (has(0xbe000000, 0x0c000000)) return !loads;                        // vectors by element
  if (has(0x3f200c00, 0x38200000)) return !has(0x0000f000, 0x0000c000);  // atomics, but for ldapr
  if (has(0x3a000000, 0x38000000)) return has(0x00c00000, 0) || has(0x04c00000, 0x04800000);
  return false;
}

/// Whether the instruction was about to store. Only for our own code, since the instruction is
/// read.
inline bool stores_at_fault(const ucontext_t& context) {
  return is_store(*reinterpret_cast<const uint32_t*>(code_at_fault(context)));
}

}  // namespace gpupeak::preload
