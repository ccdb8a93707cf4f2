// libunwind on aarch64: see libunwind.h.
#pragma once

#include <ucontext.h>

#include <cstdint>

#define GPUPEAK_LIBUNWIND(name) "_Uaarch64_" name         // its general names …
#define GPUPEAK_LIBUNWIND_LOCAL(name) "_ULaarch64_" name  // … and those for one's own process

namespace gpupeak::preload {

constexpr int kUnwindCursorWords = 250;  // unw_cursor_t of libunwind.so.8
constexpr int kUnwindIp = 30;            // UNW_REG_IP

/// Reads the registers of the function that calls this; those that a callee may change are unused.
inline __attribute__((always_inline)) void read_registers(ucontext_t* context) {
  auto* registers = reinterpret_cast<uint64_t*>(context->uc_mcontext.regs);
  asm volatile(
      "stp x18, x19, [%0, #144]\n\t"
      "stp x20, x21, [%0, #160]\n\t"
      "stp x22, x23, [%0, #176]\n\t"
      "stp x24, x25, [%0, #192]\n\t"
      "stp x26, x27, [%0, #208]\n\t"
      "stp x28, x29, [%0, #224]\n\t"
      "mov x16, sp\n\t"
      "stp x30, x16, [%0, #240]\n\t"
      "adr x16, .\n\t"
      "str x16, [%0, #256]"
      :
      : "r"(registers)
      : "x16", "memory");
}
#define GPUPEAK_UNWIND_CONTEXT(context) read_registers(context)
constexpr bool kUnwindHasContext = false;
/// unw_backtrace, the fast way, ends early (1.6.2: where a frame has no frame pointer).
constexpr bool kUnwindFastIsWhole = false;

}  // namespace gpupeak::preload
