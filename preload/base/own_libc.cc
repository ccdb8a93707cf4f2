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
#include <cstring>
#include <ctime>

#include "base/copied_memory.h"
#include "base/elf_lookup.h"
#include "base/loader.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "base/text.h"

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

/// The first of the loader's list of objects, which exists before any code runs.
const link_map* first_object() {
  const r_debug* loader = nullptr;
  if (&_r_debug != nullptr) loader = &_r_debug;
  if (loader == nullptr && &_dl_debug_addr != nullptr) loader = _dl_debug_addr;
  return loader != nullptr ? loader->r_map : nullptr;
}

/// Called only at the process's start: later another thread could change the list meanwhile.
Iterate find_iterate() {
  for (const link_map* object = first_object(); object != nullptr; object = object->l_next) {
    const char* const name = file_name(object->l_name);
    if (strncmp(name, "libc.so.6", 9) != 0 && strncmp(name, "ld-musl-", 8) != 0) continue;
    void* found = find_in_image(object->l_addr, object->l_ld, "dl_iterate_phdr");
    return reinterpret_cast<Iterate>(found);
  }
  return nullptr;
}

using Mutex = decltype(pthread_mutex_t::__data);
/// The lock that dl_iterate_phdr takes, and that the loader takes to change its list; nullptr: not
/// known. It is found by what it counts while we are called back.
constinit const Mutex* g_loader_lock = nullptr;
constinit dl_phdr_info g_program{};
/// In a forked child: a thread of the parent had that lock, so that nobody will ever release it.
constinit std::atomic<bool> g_is_held_for_good{false};
/// What the loader has said last of how often it has added and removed objects.
constinit std::atomic<unsigned long long> g_adds{0}, g_subs{0};

/// Adds the headers of a library of the loader's list; false: it is not to be read, as while the
/// loader unmaps it.
bool add_headers(dl_phdr_info& info) {
  uint64_t magic = 0;
  if (!copy_word(info.dlpi_addr, magic) || memcmp(&magic, ELFMAG, SELFMAG) != 0) return false;
  const auto& header = *reinterpret_cast<const ElfW(Ehdr)*>(info.dlpi_addr);
  info.dlpi_phdr = reinterpret_cast<const ElfW(Phdr)*>(info.dlpi_addr + header.e_phoff);
  info.dlpi_phnum = header.e_phnum;
  return true;
}

/// Does what dl_iterate_phdr does, without its lock. As long as that lock is held nobody can change
/// the list, and whoever was about to has ended: each link is either still the old one or already
/// the new one.
int iterate_without_lock(Visit visit, void* data) {
  const link_map* const first = first_object();
  for (const link_map* object = first; object != nullptr; object = object->l_next) {
    dl_phdr_info info = g_program;
    info.dlpi_addr = object->l_addr;
    info.dlpi_name = object->l_name;
    info.dlpi_adds = g_adds.load(std::memory_order_relaxed);
    info.dlpi_subs = g_subs.load(std::memory_order_relaxed);
    if (object != first && !add_headers(info)) continue;
    if (const int result = visit(&info, offsetof(dl_phdr_info, dlpi_tls_modid), data))
      return result;
  }
  return 0;
}

/// The C library's function of this name, in place of which ours is called. Looked up once; if
/// several threads do it at the same time, they find the same.
template <auto* kOurs>
decltype(kOurs) from_libc(const char* name) {
  static constinit std::atomic<void*> known{nullptr};
  void* function = known.load(std::memory_order_relaxed);
  if (__builtin_expect(function == nullptr, 0)) {
    function = find_in("libc.so.6", name);
    known.store(function, std::memory_order_relaxed);
  }
  return reinterpret_cast<decltype(kOurs)>(function);
}

}  // namespace

void find_loader_lock() {
  constexpr size_t kMost = 4;
  struct Found {
    const Mutex* at[kMost];
    unsigned count[kMost];
    size_t size = 0;
  } found;
  for_each_object([&](const dl_phdr_info& object) {
    if (g_program.dlpi_phdr == nullptr) g_program = object;
    const Symbol all = find_symbol(object, "_rtld_global");
    const auto* const begin = static_cast<const char*>(all.at);
    for (size_t i = 0; i + sizeof(Mutex) <= all.bytes && found.size < kMost; i += alignof(Mutex)) {
      const auto* const mutex = reinterpret_cast<const Mutex*>(begin + i);
      if (mutex->__kind != PTHREAD_MUTEX_RECURSIVE_NP || mutex->__count == 0) continue;
      found.at[found.size] = mutex;
      found.count[found.size++] = mutex->__count;
    }
    return all.at != nullptr;
  });
  const Mutex* lock = nullptr;
  size_t locks = 0;
  for (size_t i = 0; i < found.size; ++i) {
    if (found.at[i]->__count + 1 != found.count[i]) continue;
    lock = found.at[i];
    ++locks;
  }
  if (locks == 1) g_loader_lock = lock;
}

void look_whether_loader_is_held() {
  const Mutex* const lock = g_loader_lock;
  g_is_held_for_good.store(
      lock != nullptr && __atomic_load_n(&lock->__lock, __ATOMIC_RELAXED) != 0 &&
          __atomic_load_n(&lock->__owner, __ATOMIC_RELAXED) != static_cast<int>(sys::gettid()),
      std::memory_order_relaxed);
}

bool is_loader_held_for_good() {
  return g_is_held_for_good.load(std::memory_order_relaxed);
}

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
  if (iterate == nullptr) return 0;
  // A forked child, however it was forked, whose first hook has not called start() yet.
  if (g_process->decided == 0 && g_process != &g_first_page) look_whether_loader_is_held();
  if (is_loader_held_for_good()) return iterate_without_lock(visit, data);
  struct Visitor {
    Visit visit;
    void* data;
  } visitor{visit, data};
  return iterate(
      [](dl_phdr_info* object, size_t bytes, void* to) {
        g_adds.store(object->dlpi_adds, std::memory_order_relaxed);
        g_subs.store(object->dlpi_subs, std::memory_order_relaxed);
        const auto& that = *static_cast<const Visitor*>(to);
        return that.visit(object, bytes, that.data);
      },
      &visitor);
}

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (const auto function = from_libc<&clock_gettime>("clock_gettime")) return function(clock, now);
  sys::clock_gettime(clock, now);
  return 0;
}

unsigned long getauxval(unsigned long type) noexcept {
  const auto function = from_libc<&getauxval>("getauxval");
  return function != nullptr ? function(type) : 0;
}

/// On aarch64 there is no other way to get it.
pthread_t pthread_self() noexcept {
  const auto function = from_libc<&pthread_self>("pthread_self");
  return function != nullptr ? function() : 0;
}

/// Without the arguments that may follow these four.
int clone(int (*run)(void*), void* stack, int flags, void* data, ...) noexcept {
  const auto function = from_libc<&clone>("clone");
  return function != nullptr ? function(run, stack, flags, data) : -1;
}

/// musl has no __register_atfork, and refuses a library that needs one.
int pthread_atfork(void (*prepare)(), void (*parent)(), void (*child)()) noexcept {
  if (&__register_atfork == nullptr) return ENOSYS;
  return __register_atfork(prepare, parent, child, __dso_handle);
}

}  // extern "C"
