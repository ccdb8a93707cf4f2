#include "base/loader.h"

#include <dlfcn.h>

#include <initializer_list>

#include "base/elf_lookup.h"

namespace gpupeak::preload {
namespace {

using Dlopen = void* (*)(const char*, int);
using Dlsym = void* (*)(void*, const char*);

/// glibc before 2.34 has them in libdl, which a program may not have loaded.
void* find_in_libc(const char* name) {
  for (const char* library : {"libc.so.6", "libdl.so.2"}) {
    if (void* found = find_in(library, name)) return found;
  }
  return nullptr;
}

}  // namespace

void* load_library(const char* name) {
  const auto open = reinterpret_cast<Dlopen>(find_in_libc("dlopen"));
  return open != nullptr ? open(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
}

void* find_symbol(void* library, const char* name) {
  const auto symbol = reinterpret_cast<Dlsym>(find_in_libc("dlsym"));
  return symbol != nullptr && library != nullptr ? symbol(library, name) : nullptr;
}

}  // namespace gpupeak::preload
