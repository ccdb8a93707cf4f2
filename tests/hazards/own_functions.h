// The functions by which the allocator at hand is called under its own names.
#pragma once

#include <dlfcn.h>

#include <cstddef>

struct OwnFunctions {
  void* (*allocate)(size_t) = nullptr;
  void* (*reallocate)(void*, size_t) = nullptr;
  void (*free)(void*) = nullptr;
};

inline OwnFunctions find_own_functions() {
  constexpr const char* kNames[][3] = {{"tc_malloc", "tc_realloc", "tc_free"},
                                       {"mi_malloc", "mi_realloc", "mi_free"},
                                       {"scalable_malloc", "scalable_realloc", "scalable_free"}};
  OwnFunctions found;
  for (const auto& names : kNames) {
    found.allocate = reinterpret_cast<void* (*)(size_t)>(dlsym(RTLD_DEFAULT, names[0]));
    if (found.allocate == nullptr) continue;
    found.reallocate = reinterpret_cast<void* (*)(void*, size_t)>(dlsym(RTLD_DEFAULT, names[1]));
    found.free = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, names[2]));
    return found;
  }
  return found;
}
