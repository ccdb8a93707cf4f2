#include "hooks/adapters.h"

#include <dlfcn.h>

#include <cstring>

#include "base/elf_lookup.h"
#include "base/loader.h"
#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

constexpr const Adapter* kAdapters[] = {&kC10Adapter,   &kPjrtAdapter,       &kOrtWheelAdapter,
                                        &kRulesAdapter, &kOrtAdapter,        &kNvmlAdapter,
                                        &kNvtxAdapter,  &kArenaTablesAdapter};

/// RTLD_NEXT means "after the caller", so the program itself must call the real dlsym.
bool wants(const Adapter& adapter, void* handle, const char* name) {
  if (handle == RTLD_NEXT || name == nullptr) return false;
  return (adapter.entry != nullptr && strcmp(adapter.entry, name) == 0) ||
         (adapter.wants != nullptr && adapter.wants(name));
}

/// Calls this function of each adapter that has it.
template <typename... Parameters, typename... Arguments>
void call_all(void (*Adapter::*function)(Parameters...), Arguments... arguments) {
  for (const Adapter* const adapter : kAdapters) {
    if (adapter->*function != nullptr) (adapter->*function)(arguments...);
  }
}

}  // namespace

void* behind_us(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  const bool is_ours = found != nullptr && is_own_code(reinterpret_cast<uintptr_t>(found));
  return is_ours ? real(RTLD_NEXT, name) : found;
}

std::optional<void*> adapters_replace(Dlsym real, void* handle, const char* name) {
  for (const Adapter* const adapter : kAdapters) {
    if (adapter->look != nullptr) adapter->look(handle);
    if (wants(*adapter, handle, name)) return adapter->replace(real, handle, name);
  }
  return std::nullopt;
}

const char* adapters_variable(const char* name) {
  for (const Adapter* const adapter : kAdapters) {
    if (adapter->variable == nullptr) continue;
    if (const char* const value = adapter->variable(name)) return value;
  }
  return nullptr;
}

void adapters_look() {
  call_all(&Adapter::look, nullptr);
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
  call_all(&Adapter::take_over_in_place);
}

void adapters_take_over_asked_for(Dlsym real, void* handle, const char* name) {
  for (const Adapter* const adapter : kAdapters) {
    if (adapter->entry == nullptr || !wants(*adapter, handle, name)) continue;
    void* const found = real(handle, name);
    if (found != nullptr && !is_own_code(reinterpret_cast<uintptr_t>(found)))
      adapter->take_over_loaded(found);
  }
}

void forget_unloaded_adapters() {
  call_all(&Adapter::forget_unloaded);
}

void leave_adapters_for(uintptr_t target) {
  call_all(&Adapter::leave_jump, target);
}

void reset_adapters_in_child() {
  call_all(&Adapter::reset_in_child);
}

void put_back_adapters() {
  call_all(&Adapter::put_back);
}

}  // namespace gpupeak::preload
