#include "base/loader.h"

#include <dlfcn.h>

#include <initializer_list>

#include "base/elf_lookup.h"

namespace gpupeak::preload {
namespace {

using Dlopen = void* (*)(const char*, int);
using Dlsym = void* (*)(void*, const char*);

/// glibc before 2.34 has them in libdl. Where a program has not loaded it, libc's own are what it
/// loads libraries with itself, for iconv and names of users; later ones have them no more.
void* find_in_libc(const char* name) {
  for (const char* library : {"libc.so.6", "libdl.so.2"}) {
    if (void* found = find_in(library, name)) return found;
  }
  return nullptr;
}

/// What libdl's dlopen adds to a mode before it asks libc (glibc's __RTLD_DLOPEN).
constexpr unsigned kFromDlopen = 0x80000000;

}  // namespace

void* load_library(const char* name) {
  if (const auto open = reinterpret_cast<Dlopen>(find_in_libc("dlopen"))) {
    return open(name, RTLD_NOW | RTLD_LOCAL);
  }
  const auto open = reinterpret_cast<Dlopen>(find_in("libc.so.6", "__libc_dlopen_mode"));
  return open != nullptr ? open(name, static_cast<int>(RTLD_NOW | kFromDlopen)) : nullptr;
}

void* find_symbol(void* library, const char* name) {
  auto symbol = reinterpret_cast<Dlsym>(find_in_libc("dlsym"));
  if (symbol == nullptr) symbol = reinterpret_cast<Dlsym>(find_in("libc.so.6", "__libc_dlsym"));
  return symbol != nullptr && library != nullptr ? symbol(library, name) : nullptr;
}

}  // namespace gpupeak::preload
