// libunwind on x86-64: see libunwind.h.
#pragma once

#define GPUPEAK_LIBUNWIND(name) "_Ux86_64_" name         // its general names …
#define GPUPEAK_LIBUNWIND_LOCAL(name) "_ULx86_64_" name  // … and those for one's own process

namespace gpupeak::preload {

constexpr int kUnwindCursorWords = 127;  // unw_cursor_t of libunwind.so.8
constexpr int kUnwindIp = 16;            // UNW_REG_IP

/// Reads the registers of the function that uses this, by a function of libunwind.
#define GPUPEAK_UNWIND_CONTEXT(context) g_libunwind.get_context(context)
constexpr bool kUnwindHasContext = true;
/// unw_backtrace, the fast way, finds what single steps find.
constexpr bool kUnwindFastIsWhole = true;

}  // namespace gpupeak::preload
