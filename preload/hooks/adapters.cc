#include "hooks/adapters.h"

#include <dlfcn.h>

#include <cstring>
#include <optional>

#include "base/elf_lookup.h"
#include "base/loader.h"
#include "base/next_functions.h"
#include "hooks/attach_slots.h"
#include "hooks/cuda_lookup.h"
#include "hooks/export.h"
#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

/// RTLD_NEXT means "after the caller", so the program itself must call the real dlsym.
bool wants(const Adapter& adapter, void* handle, const char* name) {
  if (handle == RTLD_NEXT || name == nullptr) return false;
  return (adapter.entry != nullptr && strcmp(adapter.entry, name) == 0) ||
         (adapter.wants != nullptr && adapter.wants(name));
}

/// What a program is to get for dlsym(handle, name); nothing if no adapter wants the name. `real`:
/// the real dlsym.
std::optional<void*> adapters_replace(Dlsym real, void* handle, const char* name) {
  for (const Adapter* const adapter : kAdapters) {
    if (adapter->look != nullptr) adapter->look(handle);
    if (wants(*adapter, handle, name)) return adapter->replace(real, handle, name);
  }
  return std::nullopt;
}

/// What a program is to get for getenv(name), a variable without a value; nullptr: no adapter knows
/// the variable.
const char* adapters_variable(const char* name) {
  for (const Adapter* const adapter : kAdapters) {
    if (adapter->variable == nullptr) continue;
    if (const char* const value = adapter->variable(name)) return value;
  }
  return nullptr;
}

}  // namespace

void* behind_us(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  const bool is_ours = found != nullptr && is_own_code(reinterpret_cast<uintptr_t>(found));
  return is_ours ? real(RTLD_NEXT, name) : found;
}

void adapters_take_over_loaded(Loaded how_far) {
  constexpr size_t kMost = 16;
  struct Found {
    const Adapter* adapter;
    void* entry;
  } found[kMost];
  size_t count = 0;
  for_each_object([&](const dl_phdr_info& object) {
    for (const Adapter* const adapter : kAdapters) {
      if (adapter->entry == nullptr || count == kMost) continue;
      if (adapter->calls_it && how_far != Loaded::kWhole) continue;
      void* const entry = find_symbol(object, adapter->entry).at;
      if (entry != nullptr && !is_own_code(reinterpret_cast<uintptr_t>(entry)))
        found[count++] = {adapter, entry};
    }
    return false;
  });
  if (!wait_until_loaded()) return;
  for (size_t i = 0; i < count; ++i) found[i].adapter->take_over_loaded(found[i].entry);
  call_adapters(&Adapter::take_over_in_place);
}

void adapters_take_over_asked_for(Dlsym real, void* handle, const char* name) {
  for (const Adapter* const adapter : kAdapters) {
    if (adapter->entry == nullptr || !wants(*adapter, handle, name)) continue;
    void* const found = real(handle, name);
    if (found != nullptr && !is_own_code(reinterpret_cast<uintptr_t>(found)))
      adapter->take_over_loaded(found);
  }
}

/// Returned in two registers: the answer, or the real dlsym to jump to.
struct DlsymDecision {
  void* result;
  void* jump_to;  ///< not null: go there with the program's own arguments and return address
};

/// Called by dlsym itself (dlsym_*.S).
extern "C" DlsymDecision gpupeak_decide_dlsym(void* handle, const char* name, const void* caller);
DlsymDecision gpupeak_decide_dlsym(void* handle, const char* name, const void* caller) {
  // It may be another preloaded library's, or libdl's, loaded later than we (before glibc 2.34).
  Dlsym real = next().dlsym;
  if (real == nullptr) real = reinterpret_cast<Dlsym>(find_next("dlsym"));
  if (real == nullptr) return {nullptr, nullptr};
  // Calls with RTLD_NEXT go to the real dlsym unchanged: it means "after the caller", so that dlsym
  // must see the caller. So do calls of the driver, which may look up its own functions.
  if (came_late()) {
    cover_libraries_loaded_since();
    cover_library_asked_for(real, handle, name);
  } else if (const std::optional<void*> found = adapters_replace(real, handle, name)) {
    return {*found, nullptr};
  }
  if (has_missing_hooks() && name != nullptr) note_asked_for(name);
  const DriverRow* const row = handle == RTLD_NEXT ? nullptr : driver_row_of(name);
  if (row == nullptr || is_in(caller, "libcuda.so") || is_next_interposer(caller))
    return {nullptr, reinterpret_cast<void*>(real)};
  void* found = real(handle, name);
  if (found == nullptr) return {nullptr, nullptr};
  if (is_own_code(reinterpret_cast<uintptr_t>(found)) && !has_driver()) {
    // Without the real library the program must not find our exports in its place. The name is
    // looked up again from behind us, so that dlerror() says what it would say without us.
    return {real(RTLD_NEXT, name), nullptr};
  }
  return {replace_symbol(*row, found), nullptr};
}

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

// libgpupeak_audit.so calls these, when the loader is about to bind a symbol to the driver's own
// function.

/// The hook for the function, or `found`. `apart`: the driver is in a namespace of its own, where
/// dl_iterate_phdr does not see it.
GPUPEAK_EXPORT void* gpupeak_audit_symbol(const char* name, void* found, uintptr_t bias,
                                          const void* dynamic, int apart) {
  if (apart != 0) driver_lies_apart(bias, dynamic);
  const DriverRow* const row = driver_row_of(name);
  return row != nullptr && driver_is_there() ? row->hook : found;
}

GPUPEAK_EXPORT void gpupeak_audit_forget(uintptr_t bias) {
  driver_apart_is_gone(bias);
}

// getenv. For a variable without a value, an adapter may have an answer.

GPUPEAK_EXPORT char* getenv(const char* name) {
  char* const value = next().getenv != nullptr ? next().getenv(name) : nullptr;
  return value != nullptr ? value : const_cast<char*>(adapters_variable(name));
}
