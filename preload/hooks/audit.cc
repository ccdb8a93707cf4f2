// libgpupeak_audit.so calls these, when the loader is about to bind a symbol to the driver's own
// function.
#include <cstdint>

#include "hooks/cuda_lookup.h"
#include "hooks/export.h"

using namespace gpupeak::preload;

/// The hook for the function, or `found`. `apart`: the driver is in a namespace of its own, where
/// dl_iterate_phdr does not see it.
GPUPEAK_EXPORT void* gpupeak_audit_symbol(const char* name, void* found, uintptr_t bias,
                                          const void* dynamic, int apart) {
  if (apart != 0) driver_lies_apart(bias, dynamic);
  void* const hook = hook_of_name(name);
  return hook != nullptr && driver_is_there() ? hook : found;
}

GPUPEAK_EXPORT void gpupeak_audit_forget(uintptr_t bias) {
  driver_apart_is_gone(bias);
}
