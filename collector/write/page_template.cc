#include <string_view>

#ifdef GPUPEAK_PAGE_FILE
// Global and hidden: linkers for aarch64 give two local names of one file the same address.
__asm__(
    ".globl gpupeak_page_begin, gpupeak_page_end\n"
    ".hidden gpupeak_page_begin, gpupeak_page_end\n"
    ".section .rodata\n"
    "gpupeak_page_begin:\n"
    ".incbin \"" GPUPEAK_PAGE_FILE
    "\"\n"
    "gpupeak_page_end:\n"
    ".byte 0\n"
    ".text\n");
#define HIDDEN __attribute__((visibility("hidden")))
extern const char gpupeak_page_begin[] __asm__("gpupeak_page_begin") HIDDEN;
extern const char gpupeak_page_end[] __asm__("gpupeak_page_end") HIDDEN;
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
