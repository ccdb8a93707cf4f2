#include "hooks/dlsym.h"

#include <dlfcn.h>

#include "base/elf_lookup.h"
#include "hooks/c10.h"
#include "hooks/cuda_lookup.h"
#include "hooks/missing_hooks.h"
#include "hooks/ort.h"
#include "hooks/ort_wheel.h"
#include "hooks/pjrt.h"
#include "hooks/pool_rules.h"
#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

using Dlsym = void* (*)(void*, const char*);

Dlsym real_dlsym() {
  static Dlsym found = nullptr;
  Dlsym real = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (real == nullptr) {
    real = reinterpret_cast<Dlsym>(find_next("dlsym"));  // another preloaded library's, perhaps
    if (real == nullptr) real = reinterpret_cast<Dlsym>(find_in("libdl.so.2", "dlsym"));
    __atomic_store_n(&found, real, __ATOMIC_RELAXED);
  }
  return real;
}

}  // namespace

DlsymDecision gpupeak_decide_dlsym(void* handle, const char* name, const void* caller) {
  const Dlsym real = real_dlsym();
  if (real == nullptr) return {nullptr, nullptr};
  // RTLD_NEXT means "after the caller", so the real dlsym must see the caller: it gets the call as
  // it came. The driver itself may look up its own functions.
  const bool is_ort = is_ort_entry(name);
  if (is_c10_entry(name) && handle != RTLD_NEXT) {
    // What the program would find without us, which is what it gets: it does not call this one.
    void* const found = real(handle, name);
    if (found == nullptr || !is_own_code(reinterpret_cast<uintptr_t>(found)))
      return {found, nullptr};
    return {real(RTLD_NEXT, name), nullptr};
  }
  if (is_pjrt_entry(name) && handle != RTLD_NEXT) {
    void* const found = real(handle, name);
    return {found != nullptr ? pjrt_entry_for(found) : nullptr, nullptr};
  }
  if (is_ort_wheel_entry(name) && handle != RTLD_NEXT) {
    void* const found = real(handle, name);
    if (found != nullptr) take_over_ort_wheel(found);
    return {found, nullptr};
  }
  take_over_rule_pools(handle);
  if (is_rule_pool_entry(name) && handle != RTLD_NEXT) {
    return {rule_pool_entry_for(real(handle, name)), nullptr};
  }
  if (has_missing_hooks() && name != nullptr) note_asked_for(name);
  if (handle == RTLD_NEXT || (!is_ort && !is_hooked_name(name)) || is_in(caller, "libcuda.so") ||
      (!is_ort && is_next_interposer(caller))) {
    return {nullptr, reinterpret_cast<void*>(real)};
  }
  void* found = real(handle, name);
  if (found == nullptr) return {nullptr, nullptr};
  const bool library_is_there = is_ort ? find_next(name) != nullptr : has_driver();
  if (is_own_code(reinterpret_cast<uintptr_t>(found)) && !library_is_there) {
    // Without the real library the program must not find our exports in its place. Searched again
    // from behind us, so that dlerror() says what it would say without us.
    return {real(RTLD_NEXT, name), nullptr};
  }
  return {is_ort ? ort_entry_for(found) : replace_symbol(name, found), nullptr};
}

}  // namespace gpupeak::preload
