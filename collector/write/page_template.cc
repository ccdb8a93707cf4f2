#include "collector/write/page_template.h"

#ifdef GPUPEAK_PAGE_FILE
__asm__(
    ".section .rodata\n"
    "gpupeak_page_begin:\n"
    ".incbin \"" GPUPEAK_PAGE_FILE
    "\"\n"
    "gpupeak_page_end:\n"
    ".byte 0\n"
    ".text\n");
extern const char gpupeak_page_begin[] __asm__("gpupeak_page_begin");
extern const char gpupeak_page_end[] __asm__("gpupeak_page_end");
#endif

namespace gpupeak::collector {

std::string_view page_template() {
#ifdef GPUPEAK_PAGE_FILE
  return {gpupeak_page_begin, static_cast<size_t>(gpupeak_page_end - gpupeak_page_begin)};
#else
  return {};
#endif
}

}  // namespace gpupeak::collector
