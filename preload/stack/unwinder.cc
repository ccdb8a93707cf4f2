#include "stack/unwinder.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "base/elf_lookup.h"
#include "base/text.h"
#include "log/log.h"
#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

using Backtrace = int (*)(void** frames, int capacity);
constinit std::atomic<Backtrace> g_backtrace{nullptr};

// The part of libgcc's interface that we use, so as not to link to it.
using UnwindStep = int (*)(void* context, void* data);
int (*g_libgcc_backtrace)(UnwindStep, void*) = nullptr;
uintptr_t (*g_libgcc_get_ip)(void*) = nullptr;

int backtrace_with_libgcc(void** frames, int capacity) {
  struct Walk {
    void** frames;
    int count, capacity;
  } walk{frames, 0, capacity};
  g_libgcc_backtrace(
      [](void* context, void* data) -> int {
        auto* state = static_cast<Walk*>(data);
        if (state->count == state->capacity) return 5;  // _URC_END_OF_STACK
        const uintptr_t ip = g_libgcc_get_ip(context);
        if (ip == 0) return 5;
        state->frames[state->count++] = reinterpret_cast<void*>(ip);
        return 0;
      },
      &walk);
  return walk.count;
}

using Dlopen = void* (*)(const char*, int);
using Dlsym = void* (*)(void*, const char*);

struct Loader {
  Dlopen open = nullptr;
  Dlsym symbol = nullptr;
};

/// glibc before 2.34 has them in libdl, which a program may not have loaded.
Loader find_loader() {
  for (const char* library : {"libc.so.6", "libdl.so.2"}) {
    auto* open = reinterpret_cast<Dlopen>(find_in(library, "dlopen"));
    auto* symbol = reinterpret_cast<Dlsym>(find_in(library, "dlsym"));
    if (open != nullptr && symbol != nullptr) return {open, symbol};
  }
  return {};
}

Backtrace load_libunwind(const Loader& loader) {
  Path beside;
  const char* own = own_path();
  if (const char* slash = strrchr(own, '/')) {
    beside.add(std::string_view(own, static_cast<size_t>(slash - own))).add("/libunwind.so.8");
  }
  for (const char* name : {beside.c_str(), "libunwind.so.8"}) {
    if (name[0] == 0) continue;
    // RTLD_LOCAL: its _Unwind_* must not take the place of libgcc's in C++ programs
    if (void* library = loader.open(name, RTLD_NOW | RTLD_LOCAL)) {
      if (void* found = loader.symbol(library, "unw_backtrace"))
        return reinterpret_cast<Backtrace>(found);
    }
  }
  return nullptr;
}

Backtrace load_libgcc(const Loader& loader) {
  void* library = loader.open("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  g_libgcc_backtrace =
      reinterpret_cast<int (*)(UnwindStep, void*)>(loader.symbol(library, "_Unwind_Backtrace"));
  g_libgcc_get_ip = reinterpret_cast<uintptr_t (*)(void*)>(loader.symbol(library, "_Unwind_GetIP"));
  return g_libgcc_backtrace != nullptr && g_libgcc_get_ip != nullptr ? &backtrace_with_libgcc
                                                                     : nullptr;
}

}  // namespace

void load_unwinder() {
  static std::atomic<bool> tried{false};
  if (tried.exchange(true)) return;
  const Loader loader = find_loader();
  Backtrace backtrace = loader.open != nullptr ? load_libunwind(loader) : nullptr;
  if (backtrace == nullptr) {
    set_quality(GPUPEAK_Q_NO_LIBUNWIND);
    if (loader.open != nullptr) backtrace = load_libgcc(loader);
    if (backtrace == nullptr) set_quality(GPUPEAK_Q_NO_UNWINDER);
  }
  g_backtrace.store(backtrace, std::memory_order_release);
}

int unwind(void** frames, int capacity) {
  const Backtrace backtrace = g_backtrace.load(std::memory_order_acquire);
  return backtrace != nullptr ? backtrace(frames, capacity) : 0;
}

}  // namespace gpupeak::preload
