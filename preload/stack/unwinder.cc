#include "stack/unwinder.h"

#include <atomic>
#include <cstring>

#include "base/loader.h"
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

Backtrace load_libunwind() {
  Path beside;
  const char* own = own_path();
  if (const char* slash = strrchr(own, '/')) {
    beside.add(std::string_view(own, static_cast<size_t>(slash - own))).add("/libunwind.so.8");
  }
  for (const char* name : {beside.c_str(), "libunwind.so.8"}) {
    if (name[0] == 0) continue;
    Backtrace found = nullptr;
    if (find_symbol(load_library(name), "unw_backtrace", found)) return found;
  }
  return nullptr;
}

Backtrace load_libgcc() {
  void* library = load_library("libgcc_s.so.1");
  const bool found = find_symbol(library, "_Unwind_Backtrace", g_libgcc_backtrace) &&
                     find_symbol(library, "_Unwind_GetIP", g_libgcc_get_ip);
  return found ? &backtrace_with_libgcc : nullptr;
}

}  // namespace

void load_unwinder() {
  static std::atomic<bool> tried{false};
  if (tried.exchange(true)) return;
  Backtrace backtrace = load_libunwind();
  if (backtrace == nullptr) {
    set_quality(GPUPEAK_Q_NO_LIBUNWIND);
    backtrace = load_libgcc();
    if (backtrace == nullptr) set_quality(GPUPEAK_Q_NO_UNWINDER);
  }
  g_backtrace.store(backtrace, std::memory_order_release);
}

int unwind(void** frames, int capacity) {
  const Backtrace backtrace = g_backtrace.load(std::memory_order_acquire);
  return backtrace != nullptr ? backtrace(frames, capacity) : 0;
}

}  // namespace gpupeak::preload
