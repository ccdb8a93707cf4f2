#include "base/imports.h"

#include <elf.h>

#include "base/arch.h"
#include "base/elf_lookup.h"
#include "base/loader.h"
#include "base/virtual_table.h"

namespace gpupeak::preload {
namespace {

/// The relocations of an object that may fill in such slots.
struct Relocations {
  const ElfW(Rela) * calls = nullptr;  // of the procedure linkage table
  const ElfW(Rela) * data = nullptr;
  size_t call_count = 0, data_count = 0;
  size_t relative_count = 0;  ///< of `data`, at its beginning
};

Relocations relocations_of(const SymbolTable& table) {
  Relocations found;
  bool with_addends = true;
  for (const ElfW(Dyn)* entry = table.dynamic; entry->d_tag != DT_NULL; ++entry) {
    uintptr_t at = entry->d_un.d_ptr;
    if (at < table.bias) at += table.bias;
    const auto* const entries = reinterpret_cast<const ElfW(Rela)*>(at);
    const uint64_t value = entry->d_un.d_val;
    if (entry->d_tag == DT_JMPREL) found.calls = entries;
    if (entry->d_tag == DT_PLTRELSZ) found.call_count = value / sizeof *entries;
    if (entry->d_tag == DT_PLTREL) with_addends = value == DT_RELA;
    if (entry->d_tag == DT_RELA) found.data = entries;
    if (entry->d_tag == DT_RELASZ) found.data_count = value / sizeof *entries;
    if (entry->d_tag == DT_RELACOUNT) found.relative_count = value;
  }
  if (!with_addends || found.calls == nullptr) found.call_count = 0;
  if (found.data == nullptr || found.relative_count > found.data_count) found.data_count = 0;
  return found;
}

}  // namespace

void for_each_import(const dl_phdr_info& object, FunctionRef<size_t(const char* name)> wants,
                     FunctionRef<void(size_t what, const ImportSlot& slot)> visit) {
  const SymbolTable table = symbol_table(object);
  if (table.symbols == nullptr || table.strings == nullptr) return;
  const AddressRange read_only = relro_of(object);
  const Relocations relocations = relocations_of(table);
  const auto look = [&](const ElfW(Rela) & entry) {
    const ElfW(Sym)& symbol = table.symbols[ELF64_R_SYM(entry.r_info)];
    const size_t what = wants(table.strings + symbol.st_name);
    if (what == 0) return;
    const uintptr_t at = table.bias + entry.r_offset;
    auto* const slot = reinterpret_cast<uintptr_t*>(at);
    const uint32_t type = ELF64_R_TYPE(entry.r_info);
    // A slot in a table of functions has its final value at once; one in code cannot be written.
    const bool in_table = type == arch::kPointerRelocation;
    if (at % sizeof *slot != 0 || (in_table && (entry.r_addend != 0 || is_code_of(object, at))))
      return;
    // Until it is filled in, the slot leads to the object's own code, which asks the loader.
    const bool own = symbol.st_shndx != SHN_UNDEF && *slot == table.bias + symbol.st_value;
    const bool bound = in_table || own || !is_code_of(object, *slot);
    visit(what, {slot, read_only.holds(at), bound});
  };
  for (size_t i = 0; i < relocations.call_count; ++i) {
    if (ELF64_R_TYPE(relocations.calls[i].r_info) == arch::kCallRelocation)
      look(relocations.calls[i]);
  }
  for (size_t i = relocations.relative_count; i < relocations.data_count; ++i) {
    const uint32_t type = ELF64_R_TYPE(relocations.data[i].r_info);
    if (type == arch::kAddressRelocation || type == arch::kPointerRelocation)
      look(relocations.data[i]);
  }
}

bool leads_to(const ImportSlot& slot, const char* name, uintptr_t function) {
  const uintptr_t target =
      slot.bound ? *slot.at : reinterpret_cast<uintptr_t>(find_for(slot.at, name));
  return target == function;
}

bool HookedSlot::write(uintptr_t from, uintptr_t to) const {
  // Another library may be there by now, with a page there that nobody may write.
  if (__atomic_load_n(at, __ATOMIC_RELAXED) != from) return false;
  if (read_only) return replace_slot(at, to);
  return __atomic_compare_exchange_n(at, &from, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

bool HookedSlots::hook(const ImportSlot& slot, uintptr_t hook) {
  if (count == most) return false;
  const HookedSlot hooked{slot.at, hook, *slot.at, slot.read_only, next_number++};
  if (hooked.write(hooked.was, hook)) slots[count++] = hooked;
  return true;
}

void HookedSlots::forget_unloaded() {
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    if (data_end(slots[i].at) != nullptr) slots[kept++] = slots[i];
  }
  count = kept;
}

}  // namespace gpupeak::preload
