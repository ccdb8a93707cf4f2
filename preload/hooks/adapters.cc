#include "hooks/adapters.h"

#include <dlfcn.h>

#include "base/elf_lookup.h"
#include "base/loader.h"
#include "hooks/arena_rules.h"
#include "hooks/arena_tables.h"
#include "hooks/attach_slots.h"
#include "hooks/c10.h"
#include "hooks/nvml.h"
#include "hooks/nvtx.h"
#include "hooks/nvtx_clients.h"
#include "hooks/ort.h"
#include "hooks/ort_arena.h"
#include "hooks/pjrt.h"
#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

struct Adapter {
  const char* of;
  bool (*wants)(const char* name) = nullptr;  ///< a name that dlsym looks up
  void* (*replace)(Dlsym real, void* handle, const char* name) = nullptr;
  const char* (*variable)(const char* name) = nullptr;  ///< a variable without a value
  void (*look)(const void* handle) = nullptr;  ///< at each dlsym; at the start with nullptr
  void (*forget_unloaded)() = nullptr;
  void (*leave_jump)(uintptr_t target) = nullptr;
  void (*reset_in_child)() = nullptr;
  void (*put_back)() = nullptr;
  // For an attached program.
  const char* entry = nullptr;  ///< a function that the adapter's library exports
  void (*take_over_loaded)(void* entry) = nullptr;
  bool calls_it = false;  ///< take_over_loaded calls code that needs the library's constructors
  void (*take_over_in_place)() = nullptr;  ///< for what is found without an entry
};

/// What the program would find without us, so never our own export.
void* behind_us(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  const bool is_ours = found != nullptr && is_own_code(reinterpret_cast<uintptr_t>(found));
  return is_ours ? real(RTLD_NEXT, name) : found;
}

void* pjrt(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  return found != nullptr ? pjrt_entry_for(found) : nullptr;
}

void* ort_wheel(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  if (found != nullptr) take_over_ort_wheel(found);
  return found;
}

/// Without the real library the program must not find our exports in its place.
void* nvml(Dlsym real, void* handle, const char* name) {
  void* const found = behind_us(real, handle, name);
  return found != nullptr ? nvml_entry_for(name, found) : nullptr;
}

void* by_rule(Dlsym real, void* handle, const char* name) {
  return rule_arena_entry_for(real(handle, name));
}

/// Without the real library the program must not find our export in its place. Then the name is
/// looked up again from behind us, so that dlerror() says what it would say without us.
void* ort(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  if (found == nullptr) return nullptr;
  const bool is_ours = is_own_code(reinterpret_cast<uintptr_t>(found));
  return is_ours && find_next(name) == nullptr ? real(RTLD_NEXT, name) : ort_entry_for(found);
}

void take_over_loaded_wheel(void* entry) {
  take_over_ort_wheel(entry);
}

void leave_late_nvtx_clients() {
  if (came_late()) leave_nvtx_clients();
}

constexpr Adapter kAdapters[] = {
    {.of = "PyTorch's libc10",
     .wants = is_c10_entry,
     .replace = behind_us,
     .forget_unloaded = forget_unloaded_c10},
    {.of = "PJRT plugins: JAX and others",
     .wants = is_pjrt_entry,
     .replace = pjrt,
     .forget_unloaded = forget_unloaded_pjrt,
     .entry = "GetPjrtApi",
     .take_over_loaded = take_over_loaded_pjrt,
     .calls_it = true},
    {.of = "ONNX Runtime's Python package",
     .wants = is_ort_wheel_entry,
     .replace = ort_wheel,
     .entry = "PyInit_onnxruntime_pybind11_state",
     .take_over_loaded = take_over_loaded_wheel},
    {.of = "what rule files describe",
     .wants = is_rule_arena_entry,
     .replace = by_rule,
     .look = take_over_rule_arenas,
     .forget_unloaded = forget_unloaded_rule_arenas,
     .reset_in_child = leave_rule_arenas,
     .put_back = put_back_rule_arenas},
    {.of = "ONNX Runtime",
     .wants = is_ort_entry,
     .replace = ort,
     .forget_unloaded = forget_unloaded_ort,
     .entry = "OrtGetApiBase",
     .take_over_loaded = take_over_loaded_ort},
    {.of = "NVML, where a device has a limit", .wants = is_nvml_entry, .replace = nvml},
    {.of = "NVTX's clients, which ask the environment for their tool",
     .variable = nvtx_variable,
     .put_back = leave_late_nvtx_clients,
     .take_over_in_place = take_over_nvtx_clients},
    {.of = "the functions of arenas that any of them replaced",
     .forget_unloaded = forget_unloaded_arena_tables,
     .leave_jump = leave_arena_calls_for,
     .put_back = put_back_arena_tables},
};

}  // namespace

std::optional<void*> adapters_replace(Dlsym real, void* handle, const char* name) {
  for (const Adapter& adapter : kAdapters) {
    if (adapter.look != nullptr) adapter.look(handle);
    // RTLD_NEXT means "after the caller", so the program itself must call the real dlsym.
    if (handle != RTLD_NEXT && adapter.wants != nullptr && adapter.wants(name))
      return adapter.replace(real, handle, name);
  }
  return std::nullopt;
}

const char* adapters_variable(const char* name) {
  for (const Adapter& adapter : kAdapters) {
    if (adapter.variable == nullptr) continue;
    if (const char* const value = adapter.variable(name)) return value;
  }
  return nullptr;
}

void adapters_look() {
  for (const Adapter& adapter : kAdapters) {
    if (adapter.look != nullptr) adapter.look(nullptr);
  }
}

void adapters_take_over_loaded(Loaded how_far) {
  constexpr size_t kMost = 16;
  struct Found {
    const Adapter* adapter;
    void* entry;
  } found[kMost];
  size_t count = 0;
  for_each_object([&](const dl_phdr_info& object) {
    for (const Adapter& adapter : kAdapters) {
      if (adapter.entry == nullptr || count == kMost) continue;
      if (adapter.calls_it && how_far != Loaded::kWhole) continue;
      void* const entry = find_symbol(object, adapter.entry).at;
      if (entry != nullptr && !is_own_code(reinterpret_cast<uintptr_t>(entry)))
        found[count++] = {&adapter, entry};
    }
    return false;
  });
  if (!wait_until_loaded()) return;
  for (size_t i = 0; i < count; ++i) found[i].adapter->take_over_loaded(found[i].entry);
  for (const Adapter& adapter : kAdapters) {
    if (adapter.take_over_in_place != nullptr) adapter.take_over_in_place();
  }
}

void adapters_take_over_asked_for(Dlsym real, void* handle, const char* name) {
  for (const Adapter& adapter : kAdapters) {
    if (adapter.entry == nullptr || handle == RTLD_NEXT || !adapter.wants(name)) continue;
    void* const found = real(handle, name);
    if (found != nullptr && !is_own_code(reinterpret_cast<uintptr_t>(found)))
      adapter.take_over_loaded(found);
  }
}

void forget_unloaded_adapters() {
  for (const Adapter& adapter : kAdapters) {
    if (adapter.forget_unloaded != nullptr) adapter.forget_unloaded();
  }
}

void leave_adapters_for(uintptr_t target) {
  for (const Adapter& adapter : kAdapters) {
    if (adapter.leave_jump != nullptr) adapter.leave_jump(target);
  }
}

void reset_adapters_in_child() {
  for (const Adapter& adapter : kAdapters) {
    if (adapter.reset_in_child != nullptr) adapter.reset_in_child();
  }
}

void put_back_adapters() {
  for (const Adapter& adapter : kAdapters) {
    if (adapter.put_back != nullptr) adapter.put_back();
  }
}

}  // namespace gpupeak::preload
