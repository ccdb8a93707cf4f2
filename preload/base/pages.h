// Rounds addresses and sizes to the kernel's pages, which are 4, 16 or 64 KiB. Example, with 4 KiB:
// page_begin(0x1234) is 0x1000, page_end(0x1234) is 0x2000. HOOK-SAFE.
//
// gpupeak/pages.h has the page sizes that figures are rounded to: they do not depend on the kernel.
#pragma once

#include <cstdint>

#include "base/arch.h"

namespace gpupeak::preload {

/// The last page boundary that is not behind `at`.
inline uintptr_t page_begin(uintptr_t at) {
  return at & ~(uintptr_t{arch::page_bytes()} - 1);
}
/// The first page boundary that is not before `at`.
inline uintptr_t page_end(uintptr_t at) {
  return page_begin(at + arch::page_bytes() - 1);
}

}  // namespace gpupeak::preload
