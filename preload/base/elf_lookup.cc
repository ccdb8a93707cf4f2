#include "base/elf_lookup.h"

#include <elf.h>

#include <cstring>

#include "base/next_functions.h"
#include "base/text.h"

namespace gpupeak::preload {
namespace {

enum class Version { kDefault, kAny };

const ElfW(Sym) *
    definition(const SymbolTable& table, uint32_t index, const char* name, Version version) {
  const ElfW(Sym)& symbol = table.symbols[index];
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return nullptr;
  const bool is_default = table.versions == nullptr || (table.versions[index] & 0x8000) == 0;
  if (version == Version::kDefault && !is_default) return nullptr;
  return strcmp(table.strings + symbol.st_name, name) == 0 ? &symbol : nullptr;
}

const ElfW(Sym) * find_by_gnu_hash(const SymbolTable& table, const char* name, Version version) {
  uint32_t hash = 5381;
  for (const char* c = name; *c != 0; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const uint32_t buckets = table.gnu_hash[0];
  const uint32_t first = table.gnu_hash[1];
  const uint32_t bloom_words = table.gnu_hash[2];
  if (buckets == 0) return nullptr;
  const auto* bucket = table.gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
  const uint32_t* chain = bucket + buckets;
  uint32_t index = bucket[hash % buckets];
  if (index < first) return nullptr;
  for (;; ++index) {
    const uint32_t other = chain[index - first];
    if ((other | 1) == (hash | 1)) {
      if (const ElfW(Sym)* symbol = definition(table, index, name, version)) return symbol;
    }
    if ((other & 1) != 0) return nullptr;
  }
}

const ElfW(Sym) * find_by_sysv_hash(const SymbolTable& table, const char* name, Version version) {
  uint32_t hash = 0;
  for (const char* c = name; *c != 0; ++c) {
    hash = (hash << 4) + static_cast<unsigned char>(*c);
    const uint32_t high = hash & 0xf0000000u;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  const uint32_t buckets = table.sysv_hash[0];
  if (buckets == 0) return nullptr;
  const uint32_t* bucket = table.sysv_hash + 2;
  const uint32_t* chain = bucket + buckets;
  for (uint32_t i = bucket[hash % buckets]; i != 0; i = chain[i]) {
    if (const ElfW(Sym)* symbol = definition(table, i, name, version)) return symbol;
  }
  return nullptr;
}

/// The entry that defines `name`: as its default version, or the first one in whatever version.
/// nullptr if there is none.
const ElfW(Sym) *
    find_entry(const SymbolTable& table, const char* name, Version version = Version::kDefault) {
  if (table.symbols == nullptr || table.strings == nullptr) return nullptr;
  if (table.gnu_hash != nullptr) return find_by_gnu_hash(table, name, version);
  if (table.sysv_hash != nullptr) return find_by_sysv_hash(table, name, version);
  return nullptr;
}

void* address_of(const SymbolTable& table, const ElfW(Sym) * symbol) {
  if (symbol == nullptr) return nullptr;
  void* at = reinterpret_cast<void*>(table.bias + symbol->st_value);
  if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
    at = arch::resolved(reinterpret_cast<uintptr_t>(at));
  return at;
}

bool named(const dl_phdr_info& object, const char* library) {
  return begins(file_name(object), library);
}

/// Whether `is(text)` for one of the object's texts with this tag.
template <typename Is>
bool any_text(const SymbolTable& table, int64_t tag, Is is) {
  for (const ElfW(Dyn)* entry = table.dynamic; entry != nullptr && entry->d_tag != DT_NULL;
       ++entry) {
    if (entry->d_tag == tag && is(table.strings + entry->d_un.d_val)) return true;
  }
  return false;
}

bool needs(const SymbolTable& user, const dl_phdr_info& object, const SymbolTable& table) {
  return any_text(user, DT_NEEDED, [&](const char* library) {
    return strcmp(file_name(library), file_name(object)) == 0 ||
           any_text(table, DT_SONAME, [&](const char* own) { return strcmp(library, own) == 0; });
  });
}

/// Programs ask for the C library's functions by their first versions. A library that replaces such
/// functions may have that version alone, and not as the default (glibc's libc_malloc_debug). In
/// the C library itself, versions that are not the default are older functions.
void* find_next_in(const dl_phdr_info& object, const SymbolTable& table, const char* name) {
  if (void* found = find_in_table(table, name)) return found;
  return named(object, "libc.so.6") ? nullptr
                                    : address_of(table, find_entry(table, name, Version::kAny));
}

/// Preloaded libraries come behind us in load order, and before all that the program itself needs.
template <typename Visit>
void for_each_preloaded(Visit visit) {
  if (came_late()) return;
  SymbolTable program;
  bool after_ourselves = false;
  for_each_object([&](const dl_phdr_info& object) {
    const SymbolTable table = symbol_table(object);
    if (program.dynamic == nullptr) program = table;
    if (!after_ourselves) {
      after_ourselves = is_ourselves(object);
      return false;
    }
    if (named(object, "libc.so.6") || (table.strings != nullptr && needs(program, object, table)))
      return true;
    return visit(object, table);
  });
}

void* find_function(const SymbolTable& table, const char* name) {
  const ElfW(Sym)* symbol = find_entry(table, name);
  if (symbol == nullptr) return nullptr;
  const auto type = ELF64_ST_TYPE(symbol->st_info);
  return type == STT_FUNC || type == STT_GNU_IFUNC ? find_in_table(table, name) : nullptr;
}

constinit bool g_came_late = false;

/// Runs before any constructor that looks for functions.
__attribute__((constructor(101))) void look_whether_late() {
  for_each_object([](const dl_phdr_info& object) {
    g_came_late = named(object, "libc.so.6");
    return g_came_late || is_ourselves(object);
  });
  find_loader_lock();
}

}  // namespace

Symbol find_symbol(const dl_phdr_info& object, const char* name) {
  const SymbolTable table = symbol_table(object);
  const ElfW(Sym)* symbol = find_entry(table, name);
  if (symbol == nullptr) return {};
  return {reinterpret_cast<void*>(table.bias + symbol->st_value), symbol->st_size};
}

bool is_ourselves(const dl_phdr_info& object) {
  return holds(object, reinterpret_cast<const void*>(&module_path));
}

bool came_late() {
  return g_came_late;
}

void* find_next(const char* name) {
  void* found = nullptr;
  find_next(&name, 1, &found);
  return found;
}

void find_next(const char* const* names, size_t count, void** found) {
  size_t missing = count;
  bool after_ourselves = g_came_late;
  for_each_object([&](const dl_phdr_info& object) {
    if (is_ourselves(object)) {
      after_ourselves = true;
      return false;
    }
    if (!after_ourselves) return false;
    const SymbolTable table = symbol_table(object);
    for (size_t i = 0; i < count; ++i) {
      if (found[i] != nullptr) continue;
      found[i] = find_next_in(object, table, names[i]);
      if (found[i] != nullptr) --missing;
    }
    return missing == 0;
  });
}

constinit NextFunctions g_next{};
constinit bool g_next_is_known = false;

__attribute__((constructor)) void find_next_functions() {
  constexpr const char* kNames[] = {
#define NEXT(function, result, parameters) #function,
#include "base/next_functions.def"
#undef NEXT
  };
  constexpr size_t kCount = sizeof kNames / sizeof *kNames;
  void* found[kCount] = {};
  static_assert(sizeof found == sizeof g_next);
  if (g_next_is_known) return;
  find_next(kNames, kCount, found);
  memcpy(&g_next, found, sizeof g_next);
  __atomic_store_n(&g_next_is_known, true, __ATOMIC_RELEASE);
}

void* find_preloaded(const char* name) {
  void* found = nullptr;
  for_each_preloaded([&](const dl_phdr_info&, const SymbolTable& table) {
    found = find_function(table, name);
    return found != nullptr;
  });
  return found;
}

void for_each_preloaded_with(const char* (*name_of)(size_t), size_t count,
                             void (*visit)(AddressRange, size_t number, void* function)) {
  for_each_preloaded([&](const dl_phdr_info& object, const SymbolTable& table) {
    for (size_t i = 0; i < count; ++i) {
      if (void* const found = find_function(table, name_of(i))) visit(memory_of(object), i, found);
    }
    return false;
  });
}

SymbolTable table_with(const char* library, const char* name) {
  SymbolTable found;
  for_each_object([&](const dl_phdr_info& object) {
    const SymbolTable table = named(object, library) ? symbol_table(object) : SymbolTable{};
    const bool has_it = find_entry(table, name) != nullptr;
    if (has_it) found = table;
    return has_it;
  });
  return found;
}

void* find_in_table(const SymbolTable& table, const char* name) {
  return address_of(table, find_entry(table, name));
}

void* find_in(const char* library, const char* name) {
  void* found = nullptr;
  for_each_object([&](const dl_phdr_info& object) {
    if (named(object, library)) found = find_in_table(symbol_table(object), name);
    return found != nullptr;
  });
  return found;
}

void* find_in_image(uintptr_t bias, const void* dynamic, const char* name) {
  return find_in_table(symbol_table(bias, static_cast<const ElfW(Dyn)*>(dynamic)), name);
}

void for_each_export(const char* library, void (*visit)(const char* name)) {
  for_each_object([&](const dl_phdr_info& object) {
    if (!named(object, library)) return false;
    const SymbolTable table = symbol_table(object);
    if (table.symbols == nullptr || table.strings == nullptr) return true;
    for (uint32_t i = 1; i < symbol_count(table); ++i) {
      const ElfW(Sym)& symbol = table.symbols[i];
      const bool function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
      if (function && symbol.st_shndx != SHN_UNDEF) visit(table.strings + symbol.st_name);
    }
    return true;
  });
}

void* find_for(const void* caller, const char* name) {
  SymbolTable user;
  with_object_around(caller, [&](const dl_phdr_info& object) { user = symbol_table(object); });
  if (void* own = find_in_table(user, name)) return own;
  void* found = nullptr;
  for_each_object([&](const dl_phdr_info& object) {
    const SymbolTable table = symbol_table(object);
    if (table.strings != nullptr && needs(user, object, table)) found = find_in_table(table, name);
    return found != nullptr;
  });
  return found != nullptr ? found : find_next(name);
}

const char* module_path(const void* address) {
  const char* path = "";
  with_object_around(address, [&](const dl_phdr_info& object) {
    if (object.dlpi_name != nullptr) path = object.dlpi_name;
  });
  return path;
}

const void* data_end(const void* address) {
  uintptr_t end = 0;
  const auto look = [&](const ElfW(Phdr)&, AddressRange part) {
    if (part.holds(reinterpret_cast<uintptr_t>(address)) && (end == 0 || part.end < end))
      end = part.end;
    return false;
  };
  with_object_around(address, [&](const dl_phdr_info& object) {
    for_each_part(object, PT_LOAD, look);
    for_each_part(object, PT_GNU_RELRO, look);
  });
  return reinterpret_cast<const void*>(end);
}

bool is_in(const void* address, const char* library) {
  bool found = false;
  with_object_around(address, [&](const dl_phdr_info& object) { found = named(object, library); });
  return found;
}

SymbolTable symbol_table(uintptr_t bias, const ElfW(Dyn) * dynamic) {
  SymbolTable table;
  table.bias = bias;
  if (dynamic == nullptr) return table;
  table.dynamic = dynamic;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    uintptr_t at = dynamic->d_un.d_ptr;
    if (at < table.bias) at += table.bias;  // glibc relocates these in place, except in the vDSO
    const auto take = [&]<typename T>(const T*& field, int64_t tag) {
      if (dynamic->d_tag == tag) field = reinterpret_cast<const T*>(at);
    };
    take(table.symbols, DT_SYMTAB);
    take(table.strings, DT_STRTAB);
    take(table.gnu_hash, DT_GNU_HASH);
    take(table.sysv_hash, DT_HASH);
    take(table.versions, DT_VERSYM);
  }
  return table;
}

SymbolTable symbol_table(const dl_phdr_info& object) {
  const ElfW(Dyn)* dynamic = nullptr;
  for_each_part(object, PT_DYNAMIC, [&](const ElfW(Phdr)&, AddressRange memory) {
    dynamic = reinterpret_cast<const ElfW(Dyn)*>(memory.begin);
    return true;
  });
  return symbol_table(object.dlpi_addr, dynamic);
}

/// The symbol table does not say how many entries it has; the hash tables do.
uint32_t symbol_count(const SymbolTable& table) {
  if (table.sysv_hash != nullptr) return table.sysv_hash[1];
  if (table.gnu_hash == nullptr) return 0;
  const uint32_t buckets = table.gnu_hash[0], first = table.gnu_hash[1];
  const auto* bucket = table.gnu_hash + 4 + table.gnu_hash[2] * (sizeof(ElfW(Addr)) / 4);
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i) {
    if (bucket[i] > last) last = bucket[i];
  }
  if (last < first) return 0;
  const uint32_t* chain = bucket + buckets;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

}  // namespace gpupeak::preload
