#include "hooks/arena_imports.h"

#include "base/elf_lookup.h"
#include "base/imports.h"
#include "base/virtual_table.h"

namespace gpupeak::preload {
namespace {

struct Import {
  uintptr_t* slot = nullptr;
  uintptr_t trampoline = 0, was = 0;
  bool read_only = false;
};
constexpr size_t kMost = 4096;
constinit Import g_imports[kMost];
constinit size_t g_count = 0;

/// Changes a slot if it holds `from`. The program may write a table of functions itself, even at
/// this moment.
bool write(const Import& import, uintptr_t from, uintptr_t to) {
  if (import.read_only) return replace_slot(import.slot, to);
  return __atomic_compare_exchange_n(import.slot, &from, to, false, __ATOMIC_RELEASE,
                                     __ATOMIC_RELAXED);
}

/// Whether the slot leads to `real`. A slot that is not filled in yet leads to what the loader
/// would find.
bool leads_to(const ImportSlot& slot, const char* name, uintptr_t real) {
  if (slot.bound) return *slot.at == real;
  return reinterpret_cast<uintptr_t>(find_for(slot.at, name)) == real;
}

}  // namespace

bool replace_imports(const dl_phdr_info& object, const char* name, uintptr_t real,
                     uintptr_t trampoline) {
  bool fits = true;
  for_each_import(object, name, [&](const ImportSlot& slot) {
    if (*slot.at == trampoline || !leads_to(slot, name, real)) return;
    if (g_count == kMost) {
      fits = false;
      return;
    }
    const Import import{slot.at, trampoline, *slot.at, slot.read_only};
    if (write(import, import.was, trampoline)) g_imports[g_count++] = import;
  });
  return fits;
}

void put_back_imports(uintptr_t trampoline) {
  for (size_t i = 0; i < g_count; ++i) {
    const Import& import = g_imports[i];
    if (import.trampoline == trampoline && data_end(import.slot) != nullptr &&
        *import.slot == trampoline)
      write(import, trampoline, import.was);
  }
}

void forget_unloaded_imports() {
  size_t kept = 0;
  for (size_t i = 0; i < g_count; ++i) {
    if (data_end(g_imports[i].slot) != nullptr) g_imports[kept++] = g_imports[i];
  }
  g_count = kept;
}

}  // namespace gpupeak::preload
