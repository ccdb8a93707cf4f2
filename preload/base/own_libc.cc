// Calls the C library's own functions of these names, even if the program or a sanitizer's runtime
// defines others (Seastar has a dl_iterate_phdr, bash a getenv). Those may not be ready when we
// need them, may allocate, or may tell another time. Callers write the plain name, which binds to
// the functions here. HOOK-SAFE.
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/elf_lookup.h"
#include "base/file_name.h"
#include "base/syscalls.h"

#pragma weak _r_debug  // glibc's loader has this …
extern "C" {
extern r_debug* _dl_debug_addr __attribute__((weak));  // … and musl's has this
extern void* __dso_handle __attribute__((visibility("hidden")));
int __register_atfork(void (*)(), void (*)(), void (*)(), void*) __attribute__((weak));
}

namespace gpupeak::preload {
namespace {

using Visit = int (*)(dl_phdr_info*, size_t, void*);
using Iterate = int (*)(Visit, void*);

/// Reads the loader's list, which exists before any code runs. Called only at the process's start:
/// later another thread could change the list meanwhile.
Iterate find_iterate() {
  const r_debug* loader = nullptr;
  if (&_r_debug != nullptr) loader = &_r_debug;
  if (loader == nullptr && &_dl_debug_addr != nullptr) loader = _dl_debug_addr;
  const link_map* object = loader != nullptr ? loader->r_map : nullptr;
  for (; object != nullptr; object = object->l_next) {
    const char* const name = file_name(object->l_name);
    if (strncmp(name, "libc.so.6", 9) != 0 && strncmp(name, "ld-musl-", 8) != 0) continue;
    void* found = find_in_image(object->l_addr, object->l_ld, "dl_iterate_phdr");
    return reinterpret_cast<Iterate>(found);
  }
  return nullptr;
}

/// Looked up once; if several threads do it at the same time, they find the same.
template <typename Function>
Function from_libc(std::atomic<Function>& known, const char* name) {
  Function function = known.load(std::memory_order_relaxed);
  if (__builtin_expect(function == nullptr, 0)) {
    function = reinterpret_cast<Function>(find_in("libc.so.6", name));
    known.store(function, std::memory_order_relaxed);
  }
  return function;
}

}  // namespace
}  // namespace gpupeak::preload

using namespace gpupeak::preload;

extern "C" {

int dl_iterate_phdr(Visit visit, void* data) {
  static constinit std::atomic<Iterate> known{nullptr};
  Iterate iterate = known.load(std::memory_order_relaxed);
  if (__builtin_expect(iterate == nullptr, 0)) {
    iterate = find_iterate();
    known.store(iterate, std::memory_order_relaxed);
  }
  return iterate != nullptr ? iterate(visit, data) : 0;
}

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static constinit std::atomic<int (*)(clockid_t, timespec*)> known{nullptr};
  if (const auto function = from_libc(known, "clock_gettime")) return function(clock, now);
  sys::clock_gettime(clock, now);
  return 0;
}

unsigned long getauxval(unsigned long type) noexcept {
  static constinit std::atomic<unsigned long (*)(unsigned long)> known{nullptr};
  const auto function = from_libc(known, "getauxval");
  return function != nullptr ? function(type) : 0;
}

/// On aarch64 there is no other way to get it.
pthread_t pthread_self() noexcept {
  static constinit std::atomic<pthread_t (*)()> known{nullptr};
  const auto function = from_libc(known, "pthread_self");
  return function != nullptr ? function() : 0;
}

/// Without the arguments that may follow these four.
int clone(int (*run)(void*), void* stack, int flags, void* data, ...) noexcept {
  using Clone = int (*)(int (*)(void*), void*, int, void*, ...);
  static constinit std::atomic<Clone> known{nullptr};
  const auto function = from_libc(known, "clone");
  return function != nullptr ? function(run, stack, flags, data) : -1;
}

/// musl has no __register_atfork, and refuses a library that needs one.
int pthread_atfork(void (*prepare)(), void (*parent)(), void (*child)()) noexcept {
  if (&__register_atfork == nullptr) return ENOSYS;
  return __register_atfork(prepare, parent, child, __dso_handle);
}

}  // extern "C"
