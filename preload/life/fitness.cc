#include "life/fitness.h"

#include <sys/auxv.h>

#include <cstdint>

#include "base/elf_lookup.h"
#include "stack/module_map.h"

// Symbols that only a sanitizer's runtime defines, and one that musl's C library does not define.
extern "C" {
void __asan_init() __attribute__((weak));
void __hwasan_init() __attribute__((weak));
void __lsan_init() __attribute__((weak));
void __lsan_do_leak_check() __attribute__((weak));
void __msan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
const char* gnu_get_libc_version() __attribute__((weak));
}

namespace gpupeak::preload {
namespace {

/// A sanitizer takes the places that we need, and its shadow of all memory does not have ours.
bool has_sanitizer() {
  return &__asan_init != nullptr || &__hwasan_init != nullptr || &__lsan_init != nullptr ||
         &__lsan_do_leak_check != nullptr || &__msan_init != nullptr || &__tsan_init != nullptr;
}

}  // namespace

bool is_privileged() {
  return getauxval(AT_SECURE) != 0;
}

std::string_view unfit_because() {
  if (&gnu_get_libc_version == nullptr) return "its C library is not glibc";
  if (has_sanitizer()) return "it has a sanitizer's runtime";
  return {};
}

bool must_be_silent() {
  return is_privileged() || !unfit_because().empty();
}

bool owns_malloc() {
  for (const char* name : {"malloc", "free"}) {
    const void* used = find_first(name);
    if (used != nullptr && !is_own_code(reinterpret_cast<uintptr_t>(used))) return false;
  }
  return true;
}

}  // namespace gpupeak::preload
