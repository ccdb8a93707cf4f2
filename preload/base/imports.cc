#include "base/imports.h"

#include <elf.h>
#include <sys/mman.h>

#include <cstring>

#include "base/elf_lookup.h"
#include "base/loader.h"
#include "base/memory.h"
#include "base/syscalls.h"

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

// Virtual tables.

constexpr uintptr_t kWord = sizeof(uintptr_t);

struct Library {
  dl_phdr_info object;
  AddressRange all;    ///< from its first byte to its last
  AddressRange relro;  ///< what the loader has written, and is read-only since

  bool has_code(uintptr_t at) const { return is_code_of(object, at); }
  /// Whether the bytes are read-only, as in the file.
  bool has_text(uintptr_t at, size_t bytes = 1) const {
    return for_each_part(object, PT_LOAD, [=](const ElfW(Phdr) & part, AddressRange memory) {
      return (part.p_flags & (PF_W | PF_R)) == PF_R && memory.holds(at, bytes);
    });
  }
};

/// Whether `text` stands at `at`. The last word is compared first, since a library has thousands of
/// class names that begin alike.
bool is_text(const Library& library, uintptr_t at, const char* text, size_t bytes) {
  if (!library.has_text(at, bytes)) return false;
  const auto last_word = [bytes](const char* of) {
    return value_at<uint64_t>(of + bytes - sizeof(uint64_t));
  };
  const auto* const there = reinterpret_cast<const char*>(at);
  if (bytes >= sizeof(uint64_t) && last_word(there) != last_word(text)) return false;
  return memcmp(there, text, bytes) == 0;
}

/// Whether a word may point to a virtual table of the C++ library. Such a table lies in another
/// library, or among this library's own tables. For other words no text is read: the kernel would
/// have to bring in each page of it.
bool may_be_table(const Library& library, uintptr_t word) {
  constexpr uintptr_t kLeast = 64 << 10;  // nothing is mapped below; numbers are
  return word >= kLeast && word % kWord == 0 &&
         (library.relro.holds(word, kWord) || !library.all.holds(word));
}

/// The class's type information: a pointer to a virtual table of the C++ library, then the name. 0:
/// there is none, or there are several.
uintptr_t find_type(const Library& library, const char* name) {
  const size_t bytes = strlen(name) + 1;
  uintptr_t found = 0;
  for (uintptr_t at = library.relro.begin; at + 2 * kWord <= library.relro.end; at += kWord) {
    const auto* const words = reinterpret_cast<const uintptr_t*>(at);
    if (!may_be_table(library, words[0]) || !is_text(library, words[1], name, bytes)) continue;
    if (found != 0) return 0;
    found = at;
  }
  return found;
}

/// The third word of a class with one base.
const char* base_name(const Library& library, uintptr_t type) {
  if (!library.relro.holds(type, 3 * kWord)) return "";
  const uintptr_t base = reinterpret_cast<const uintptr_t*>(type)[2];
  if (base % kWord != 0 || !library.relro.holds(base, 2 * kWord)) return "";
  const uintptr_t name = reinterpret_cast<const uintptr_t*>(base)[1];
  return library.has_text(name) ? reinterpret_cast<const char*>(name) : "";
}

bool find_library(const void* inside, Library& library) {
  bool found = false;
  for_each_object([&](const dl_phdr_info& object) {
    library = {object, memory_of(object), relro_of(object)};
    if (!library.all.holds(reinterpret_cast<uintptr_t>(inside))) return false;
    found = library.relro.end > library.relro.begin;
    return true;
  });
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

VirtualTable find_virtual_table(const void* inside, const char* type_name) {
  Library library;
  if (!find_library(inside, library)) return {};
  const uintptr_t type = find_type(library, type_name);
  if (type == 0) return {};
  VirtualTable table;
  for (uintptr_t at = library.relro.begin + kWord; at + 2 * kWord <= library.relro.end;
       at += kWord) {
    auto* const words = reinterpret_cast<uintptr_t*>(at);
    // The distance to the whole object, the type, the functions.
    if (words[0] != type || words[-1] != 0 || !library.has_code(words[1])) continue;
    if (table.slots != nullptr) return {};
    table.slots = words + 1;
    while (library.relro.holds(reinterpret_cast<uintptr_t>(table.slots + table.count), kWord) &&
           library.has_code(table.slots[table.count])) {
      ++table.count;
    }
  }
  table.base = base_name(library, type);
  return table;
}

bool replace_slot(uintptr_t* slot, uintptr_t function) {
  const uintptr_t page = page_begin(reinterpret_cast<uintptr_t>(slot));
  const auto protect = [&](int protection) {
    return !sys::failed(
        sys::mprotect(reinterpret_cast<void*>(page), arch::page_bytes(), protection));
  };
  if (reinterpret_cast<uintptr_t>(slot) % sizeof *slot != 0 || !protect(PROT_READ | PROT_WRITE)) {
    return false;
  }
  __atomic_store_n(slot, function, __ATOMIC_RELEASE);
  protect(PROT_READ);
  return true;
}

}  // namespace gpupeak::preload
