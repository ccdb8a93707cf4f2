// A program with a sanitizer's runtime is left alone (life/process.cc), and must start.
#include "hooks/export.h"

/// AddressSanitizer's shared runtime refuses to start behind a preloaded library, which might have
/// taken its places: ours passes on what it is called for. A program that has options of its own
/// defines this itself.
GPUPEAK_EXPORT const char* __asan_default_options() {
  return "verify_asan_link_order=0";
}
