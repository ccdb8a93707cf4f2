#include "hooks/dlsym.h"

#include <dlfcn.h>

#include "base/elf_lookup.h"
#include "hooks/adapters.h"
#include "hooks/attach_slots.h"
#include "hooks/cuda_lookup.h"
#include "hooks/missing_hooks.h"
#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

Dlsym real_dlsym() {
  static Dlsym found = nullptr;
  Dlsym real = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (real == nullptr) {
    real = reinterpret_cast<Dlsym>(find_next("dlsym"));  // may be another preloaded library's
    if (real == nullptr) real = reinterpret_cast<Dlsym>(find_in("libdl.so.2", "dlsym"));
    __atomic_store_n(&found, real, __ATOMIC_RELAXED);
  }
  return real;
}

}  // namespace

DlsymDecision gpupeak_decide_dlsym(void* handle, const char* name, const void* caller) {
  const Dlsym real = real_dlsym();
  if (real == nullptr) return {nullptr, nullptr};
  if (came_late()) {
    cover_libraries_loaded_since();
    cover_library_asked_for(real, handle, name);
  }
  // Calls with RTLD_NEXT go to the real dlsym unchanged: it means "after the caller", so that dlsym
  // must see the caller. So do calls of the driver, which may look up its own functions.
  if (!came_late()) {
    if (const std::optional<void*> found = adapters_replace(real, handle, name))
      return {*found, nullptr};
  }
  if (has_missing_hooks() && name != nullptr) note_asked_for(name);
  if (handle == RTLD_NEXT || !is_hooked_name(name) || is_in(caller, "libcuda.so") ||
      is_next_interposer(caller)) {
    return {nullptr, reinterpret_cast<void*>(real)};
  }
  void* found = real(handle, name);
  if (found == nullptr) return {nullptr, nullptr};
  if (is_own_code(reinterpret_cast<uintptr_t>(found)) && !has_driver()) {
    // Without the real library the program must not find our exports in its place. The name is
    // looked up again from behind us, so that dlerror() says what it would say without us.
    return {real(RTLD_NEXT, name), nullptr};
  }
  return {replace_symbol(name, found), nullptr};
}

}  // namespace gpupeak::preload
