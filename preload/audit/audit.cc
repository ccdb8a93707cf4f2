// libgpupeak_audit.so, for clients of the driver that a preloaded library does not reach: those
// that open their libraries with RTLD_DEEPBIND, or in a namespace of their own (dlmopen). If
// LD_AUDIT names it, the loader asks it at each binding of a symbol. If a client would be bound to
// a function of the driver, it returns libgpupeak.so's hook:
//
//   a plugin opened with RTLD_DEEPBIND binds libcuda.so.1's cuMemAlloc_v2  →  our cuMemAlloc_v2
//
// It is in a namespace of its own, with its own libc, and does nothing else.
#include <link.h>

#include <cstring>

namespace {

/// In libgpupeak.so; see hooks/adapters.cc.
using Choose = void* (*)(const char* name, void* found, uintptr_t bias, const void* dynamic,
                         int apart);
using Forget = void (*)(uintptr_t bias);

Choose g_choose = nullptr;
Forget g_forget = nullptr;

const char* file_name(const link_map* map) {
  const char* path = map->l_name != nullptr ? map->l_name : "";
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

bool is_driver(const link_map* map) {
  return strncmp(file_name(map), "libcuda.so", 10) == 0;
}

/// A function of libgpupeak.so, which is loaded but not yet relocated when this is called first.
void* find(const link_map* map, const char* name) {
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    uintptr_t at = entry->d_un.d_ptr;
    if (at < map->l_addr) at += map->l_addr;
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(at);
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(at);
    if (entry->d_tag == DT_GNU_HASH) gnu_hash = reinterpret_cast<const uint32_t*>(at);
  }
  if (symbols == nullptr || strings == nullptr || gnu_hash == nullptr) return nullptr;
  const uint32_t buckets = gnu_hash[0], first = gnu_hash[1];
  const uint32_t* bucket = gnu_hash + 4 + gnu_hash[2] * (sizeof(ElfW(Addr)) / 4);
  const uint32_t* chain = bucket + buckets;
  for (uint32_t i = 0; i < buckets; ++i) {
    if (bucket[i] < first) continue;
    for (uint32_t index = bucket[i];; ++index) {
      if (strcmp(strings + symbols[index].st_name, name) == 0)
        return reinterpret_cast<void*>(map->l_addr + symbols[index].st_value);
      if ((chain[index - first] & 1) != 0) break;
    }
  }
  return nullptr;
}

/// What an object's cookie points to; the loader passes the cookie back to us.
struct Object {
  const link_map* map;
  bool apart;  ///< in a namespace of its own
};
constexpr size_t kMostObjects = 4096;
Object g_objects[kMostObjects];
size_t g_count = 0;

}  // namespace

#define AUDIT_EXPORT extern "C" __attribute__((visibility("default")))

AUDIT_EXPORT unsigned la_version(unsigned version) {
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

AUDIT_EXPORT unsigned la_objopen(link_map* map, Lmid_t space, uintptr_t* cookie) {
  const bool base = space == LM_ID_BASE;
  if (base && strncmp(file_name(map), "libgpupeak.so", 13) == 0) {
    g_choose = reinterpret_cast<Choose>(find(map, "gpupeak_audit_symbol"));
    g_forget = reinterpret_cast<Forget>(find(map, "gpupeak_audit_forget"));
  }
  size_t slot = 0;
  while (slot < g_count && g_objects[slot].map != nullptr) ++slot;
  if (slot == kMostObjects) {  // no room to note it: its symbols stay as they are
    *cookie = 0;
    return 0;
  }
  if (slot == g_count) ++g_count;
  g_objects[slot] = {map, !base};
  *cookie = reinterpret_cast<uintptr_t>(&g_objects[slot]);
  return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

AUDIT_EXPORT unsigned la_objclose(uintptr_t* cookie) {
  auto* const object = reinterpret_cast<Object*>(*cookie);
  if (object == nullptr || object->map == nullptr) return 0;
  if (is_driver(object->map) && g_forget != nullptr) g_forget(object->map->l_addr);
  object->map = nullptr;
  return 0;
}

AUDIT_EXPORT uintptr_t la_symbind64(Elf64_Sym* symbol, unsigned, uintptr_t* user,
                                    uintptr_t* definer, unsigned*, const char* name) {
  const auto* const from = reinterpret_cast<const Object*>(*user);
  const auto* const to = reinterpret_cast<const Object*>(*definer);
  const bool known = from != nullptr && to != nullptr && from->map != nullptr && to->map != nullptr;
  // Bindings of the driver itself and of libgpupeak stay as they are.
  if (g_choose == nullptr || !known || !is_driver(to->map) || is_driver(from->map) ||
      strncmp(file_name(from->map), "libgpupeak", 10) == 0) {
    return symbol->st_value;
  }
  return reinterpret_cast<uintptr_t>(g_choose(name, reinterpret_cast<void*>(symbol->st_value),
                                              to->map->l_addr, to->map->l_ld, to->apart ? 1 : 0));
}
