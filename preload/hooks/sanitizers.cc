// A program with a sanitizer's runtime is left alone (life/process.cc), and must start.
#include "hooks/export.h"

/// AddressSanitizer's shared runtime refuses to start behind a preloaded library, whose functions
/// may be found before its own. Our hooks pass all calls on. A program with options of its own
/// defines this function itself.
GPUPEAK_EXPORT const char* __asan_default_options() {
  return "verify_asan_link_order=0";
}
