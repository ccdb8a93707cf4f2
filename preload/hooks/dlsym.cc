#include "hooks/dlsym.h"

#include <dlfcn.h>

#include "base/elf_lookup.h"
#include "hooks/cuda_lookup.h"

namespace gpupeak::preload {
namespace {

using Dlsym = void* (*)(void*, const char*);

Dlsym real_dlsym() {
  static Dlsym found = nullptr;
  Dlsym real = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (real == nullptr) {
    real = reinterpret_cast<Dlsym>(find_in("libc.so.6", "dlsym"));
    if (real == nullptr) real = reinterpret_cast<Dlsym>(find_in("libdl.so.2", "dlsym"));
    __atomic_store_n(&found, real, __ATOMIC_RELAXED);
  }
  return real;
}

}  // namespace

DlsymDecision gpupeak_decide_dlsym(void* handle, const char* name, const void* caller) {
  const Dlsym real = real_dlsym();
  if (real == nullptr) return {nullptr, nullptr};
  // RTLD_NEXT means "after the caller", so the real dlsym must see the caller: it gets the call as it came.
  // The driver itself may look up its own functions.
  if (handle == RTLD_NEXT || !is_hooked_name(name) || is_in(caller, "libcuda.so")) {
    return {nullptr, reinterpret_cast<void*>(real)};
  }
  return {replace_symbol(name, real(handle, name)), nullptr};
}

}  // namespace gpupeak::preload
