#include "base/loader.h"

#include <dlfcn.h>

#include <atomic>
#include <initializer_list>

#include "base/elf_lookup.h"

#pragma weak _r_debug

namespace gpupeak::preload {
namespace {

using Dlopen = void* (*)(const char*, int);
using Dlsym = void* (*)(void*, const char*);

/// glibc before 2.34 has dlopen, dlsym and dladdr in libdl. If a program has not loaded libdl, we
/// use the functions by which libc itself loads libraries, for iconv and user names; later glibc
/// has none.
void* find_in_libc(const char* name) {
  for (const char* library : {"libc.so.6", "libdl.so.2"}) {
    if (void* found = find_in(library, name)) return found;
  }
  return nullptr;
}

/// The bit that libdl's dlopen adds to the mode when it calls libc (glibc's __RTLD_DLOPEN).
constexpr unsigned kFromDlopen = 0x80000000;

}  // namespace

void* load_library(const char* name) {
  if (is_loader_held_for_good()) return nullptr;
  if (const auto open = reinterpret_cast<Dlopen>(find_in_libc("dlopen"))) {
    return open(name, RTLD_NOW | RTLD_LOCAL);
  }
  const auto open = reinterpret_cast<Dlopen>(find_in("libc.so.6", "__libc_dlopen_mode"));
  return open != nullptr ? open(name, static_cast<int>(RTLD_NOW | kFromDlopen)) : nullptr;
}

bool wait_until_loaded() {
  using Dladdr = int (*)(const void*, Dl_info*);
  const auto ask = reinterpret_cast<Dladdr>(find_in_libc("dladdr"));
  Dl_info info;
  return ask != nullptr && ask(reinterpret_cast<const void*>(&wait_until_loaded), &info) != 0;
}

bool loader_is_removing() {
  return &_r_debug == nullptr ||
         __atomic_load_n(&_r_debug.r_state, __ATOMIC_RELAXED) == r_debug::RT_DELETE;
}

IsLoaded loader_has_code(uintptr_t ip) {
  struct Object {  // glibc's dl_find_object
    unsigned long long flags;
    void *begin, *end;
    link_map* map;
    void* unwind_table;
    unsigned long long reserved[11];
  };
  using Find = int (*)(void*, Object*);
  static constinit std::atomic<Find> known{nullptr};
  static constinit std::atomic<bool> asked{false};
  if (!asked.load(std::memory_order_acquire)) {
    void* found = find_in("libc.so.6", "_dl_find_object");
    if (found == nullptr) found = find_in("ld-linux", "_dl_find_object");
    known.store(reinterpret_cast<Find>(found), std::memory_order_relaxed);
    asked.store(true, std::memory_order_release);
  }
  const Find find = known.load(std::memory_order_relaxed);
  if (find == nullptr) return IsLoaded::kNotKnown;
  Object object;
  return find(reinterpret_cast<void*>(ip), &object) == 0 ? IsLoaded::kYes : IsLoaded::kNo;
}

void* find_symbol(void* library, const char* name) {
  auto symbol = reinterpret_cast<Dlsym>(find_in_libc("dlsym"));
  if (symbol == nullptr) symbol = reinterpret_cast<Dlsym>(find_in("libc.so.6", "__libc_dlsym"));
  return symbol != nullptr && library != nullptr ? symbol(library, name) : nullptr;
}

}  // namespace gpupeak::preload
