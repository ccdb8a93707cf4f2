#include "base/elf_lookup.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

#include "base/arch.h"
#include "base/file_name.h"
#include "base/loaded_objects.h"
#include "base/loader.h"
#include "base/symbol_table.h"

namespace gpupeak::preload {
namespace {

void* address_of(const SymbolTable& table, const ElfW(Sym) * symbol) {
  if (symbol == nullptr) return nullptr;
  void* at = reinterpret_cast<void*>(table.bias + symbol->st_value);
  if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC) {
    at = arch::resolved(reinterpret_cast<uintptr_t>(at));
  }
  return at;
}

void* find_in_table(const SymbolTable& table, const char* name) {
  return address_of(table, find_entry(table, name));
}

bool holds(const dl_phdr_info& object, const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && at - (object.dlpi_addr + segment.p_vaddr) < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

bool named(const dl_phdr_info& object, const char* library) {
  return strncmp(file_name(object), library, strlen(library)) == 0;
}

/// The name by which other objects need this one; empty: it has none.
const char* soname(const SymbolTable& table) {
  for (const ElfW(Dyn)* entry = table.dynamic; entry != nullptr && entry->d_tag != DT_NULL;
       ++entry) {
    if (entry->d_tag == DT_SONAME) return table.strings + entry->d_un.d_val;
  }
  return "";
}

bool needs(const SymbolTable& user, const dl_phdr_info& object, const SymbolTable& table) {
  for (const ElfW(Dyn)* entry = user.dynamic; entry != nullptr && entry->d_tag != DT_NULL;
       ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    const char* library = user.strings + entry->d_un.d_val;
    if (strcmp(file_name(library), file_name(object)) == 0) return true;
    if (strcmp(library, soname(table)) == 0) return true;
  }
  return false;
}

/// Programs ask for the C library's functions by their first versions. A library that replaces such
/// functions may have that version alone, and not as the default (glibc's libc_malloc_debug). In
/// the C library itself, versions that are not the default are older functions.
void* find_next_in(const dl_phdr_info& object, const SymbolTable& table, const char* name) {
  if (void* found = find_in_table(table, name)) return found;
  return named(object, "libc.so.6") ? nullptr
                                    : address_of(table, find_entry_of_any_version(table, name));
}

}  // namespace

Symbol find_symbol(const dl_phdr_info& object, const char* name) {
  const SymbolTable table = symbol_table(object);
  const ElfW(Sym)* symbol = find_entry(table, name);
  if (symbol == nullptr) return {};
  return {reinterpret_cast<void*>(table.bias + symbol->st_value), symbol->st_size};
}

namespace {

constinit bool g_came_late = false;

bool is_ourselves(const dl_phdr_info& object) {
  return holds(object, reinterpret_cast<const void*>(&module_path));
}

/// Runs before any constructor that looks for functions.
__attribute__((constructor(101))) void look_whether_late() {
  for_each_object([](const dl_phdr_info& object) {
    g_came_late = named(object, "libc.so.6");
    return g_came_late || is_ourselves(object);
  });
  find_loader_lock();
}

}  // namespace

bool came_late() {
  return g_came_late;
}

void* find_next(const char* name) {
  void* found = nullptr;
  find_next({{name, found}});
  return found;
}

void find_next(std::initializer_list<NextFunction> wanted) {
  constexpr size_t kMost = 16;
  void* found[kMost] = {};
  size_t missing = wanted.size() < kMost ? wanted.size() : kMost;
  bool after_ourselves = g_came_late;
  for_each_object([&](const dl_phdr_info& object) {
    if (is_ourselves(object)) {
      after_ourselves = true;
      return false;
    }
    if (!after_ourselves) return false;
    const SymbolTable table = symbol_table(object);
    void** at = found;
    for (const NextFunction& function : wanted) {
      if (at == found + kMost) break;
      if (*at == nullptr && (*at = find_next_in(object, table, function.name)) != nullptr)
        --missing;
      ++at;
    }
    return missing == 0;
  });
  void* const* at = found;
  for (const NextFunction& function : wanted) {
    if (at == found + kMost) break;
    memcpy(function.address, at++, sizeof *at);
  }
}

namespace {

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
      after_ourselves = holds(object, reinterpret_cast<const void*>(&module_path));
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

}  // namespace

void* find_preloaded(const char* name) {
  void* found = nullptr;
  for_each_preloaded([&](const dl_phdr_info&, const SymbolTable& table) {
    found = find_function(table, name);
    return found != nullptr;
  });
  return found;
}

void for_each_preloaded_with(const char* (*name_of)(int), int count, void (*visit)(AddressRange)) {
  for_each_preloaded([&](const dl_phdr_info& object, const SymbolTable& table) {
    bool found = false;
    for (int i = 0; i < count && !found; ++i) found = find_function(table, name_of(i)) != nullptr;
    if (found) visit(memory_of(object));
    return false;
  });
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

void* find_first(const char* name) {
  void* found = nullptr;
  for_each_object([&](const dl_phdr_info& object) {
    found = find_in_table(symbol_table(object), name);
    return found != nullptr;
  });
  return found;
}

void* find_for(const void* caller, const char* name) {
  SymbolTable user;
  for_each_object([&](const dl_phdr_info& object) {
    const bool found = holds(object, caller);
    if (found) user = symbol_table(object);
    return found;
  });
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
  for_each_object([&](const dl_phdr_info& object) {
    const bool found = holds(object, address);
    if (found && object.dlpi_name != nullptr) path = object.dlpi_name;
    return found;
  });
  return path;
}

const void* data_end(const void* address) {
  uintptr_t end = 0;
  for_each_object([&](const dl_phdr_info& object) {
    if (!holds(object, address)) return false;
    for (int i = 0; i < object.dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = object.dlpi_phdr[i];
      if (segment.p_type != PT_LOAD && segment.p_type != PT_GNU_RELRO) continue;
      const uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
      if (reinterpret_cast<uintptr_t>(address) - begin >= segment.p_memsz) continue;
      const uintptr_t segment_end = begin + segment.p_memsz;
      if (end == 0 || segment_end < end) end = segment_end;
    }
    return true;
  });
  return reinterpret_cast<const void*>(end);
}

bool is_in(const void* address, const char* library) {
  bool found = false;
  for_each_object([&](const dl_phdr_info& object) {
    found = named(object, library) && holds(object, address);
    return found;
  });
  return found;
}

}  // namespace gpupeak::preload
