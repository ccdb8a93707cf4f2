#include "base/symbol_table.h"

#include <elf.h>

#include <cstring>

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

const ElfW(Sym) * find(const SymbolTable& table, const char* name, Version version) {
  if (table.symbols == nullptr || table.strings == nullptr) return nullptr;
  if (table.gnu_hash != nullptr) return find_by_gnu_hash(table, name, version);
  if (table.sysv_hash != nullptr) return find_by_sysv_hash(table, name, version);
  return nullptr;
}

}  // namespace

SymbolTable symbol_table(uintptr_t bias, const ElfW(Dyn) * dynamic) {
  SymbolTable table;
  table.bias = bias;
  if (dynamic == nullptr) return table;
  table.dynamic = dynamic;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    uintptr_t at = dynamic->d_un.d_ptr;
    if (at < table.bias) at += table.bias;  // glibc relocates these in place, except in the vDSO
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        table.symbols = reinterpret_cast<const ElfW(Sym)*>(at);
        break;
      case DT_STRTAB:
        table.strings = reinterpret_cast<const char*>(at);
        break;
      case DT_GNU_HASH:
        table.gnu_hash = reinterpret_cast<const uint32_t*>(at);
        break;
      case DT_HASH:
        table.sysv_hash = reinterpret_cast<const uint32_t*>(at);
        break;
      case DT_VERSYM:
        table.versions = reinterpret_cast<const ElfW(Half)*>(at);
        break;
      default:
        break;
    }
  }
  return table;
}

SymbolTable symbol_table(const dl_phdr_info& object) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    }
  }
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

const ElfW(Sym) * find_entry(const SymbolTable& table, const char* name) {
  return find(table, name, Version::kDefault);
}

const ElfW(Sym) * find_entry_of_any_version(const SymbolTable& table, const char* name) {
  return find(table, name, Version::kAny);
}

}  // namespace gpupeak::preload
