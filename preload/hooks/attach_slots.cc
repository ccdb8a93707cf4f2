#include "hooks/attach_slots.h"

#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/imports.h"
#include "base/kept_errno.h"
#include "base/loader.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "gpupeak/attach.h"
#include "hooks/allocators.h"
#include "hooks/cuda_lookup.h"
#include "hooks/export.h"
#include "life/process.h"
#include "log/log.h"
#include "log/log_file.h"
#include "stack/module_map.h"
#include "thread/heap_sample.h"
#include "track/ledger.h"
#include "track/phases.h"

namespace gpupeak::preload {
namespace {

/// The hooks of exports.map that see memory, and those on which these depend. Not hooked in an
/// attached program: exec and posix_spawn (its children are left alone), wait.
constexpr const char* kNames[] = {
    "malloc", "free", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc",
    "memalign", "valloc", "pvalloc", "free_sized", "free_aligned_sized", "__libc_malloc",
    "__libc_free", "__libc_calloc", "__libc_realloc", "__libc_memalign", "__libc_valloc",
    "__libc_pvalloc", "mmap", "mmap64", "munmap", "mremap", "mprotect", "pkey_mprotect", "brk",
    "sbrk", "madvise", "malloc_trim", "shmdt", "sigaction", "signal", "bsd_signal", "ssignal",
    "sysv_signal", "__sysv_signal", "sigset", "prctl", "syscall", "setrlimit", "setrlimit64",
    "prlimit", "prlimit64", "dlclose", "dlsym", "_exit", "_Exit", "longjmp", "_longjmp",
    "siglongjmp", "__longjmp_chk", "getenv",
    // By which PyTorch's allocator tells its profiler of blocks, in all its forms.
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
    "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE",
    "_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE",
    "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
    "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE"};
constexpr size_t kNameCount = sizeof kNames / sizeof *kNames;
constexpr size_t kHeapNames = 19;  // the first ones

/// A function's hook, and the real function, which slots hold without us.
struct Hook {
  uintptr_t hook = 0, real = 0;
};
constinit Hook g_hooks[kNameCount] = {};

constexpr size_t kMostSlots = 1 << 17;
constinit HookedSlots g_slots{nullptr, kMostSlots};
constinit std::atomic<bool> g_hooked{false};
constinit std::atomic<bool> g_busy{false};  // a thread goes through the libraries, or forks
/// This thread has set g_busy, since it forks.
constinit thread_local bool t_is_busy __attribute__((tls_model("initial-exec"))) = false;
constinit unsigned long long g_loads_seen = 0, g_unloads_at_first = 0;

/// The libraries that were complete before the pass that changes them.
constexpr size_t kMostObjects = 4096;
constinit uintptr_t g_objects[kMostObjects] = {};
constinit size_t g_object_count = 0;

/// Our own library, and the loader: its own allocations and frees match each other, and it makes
/// them where we may ask the loader for something.
bool is_left_alone(const dl_phdr_info& object) {
  const char* const name = file_name(object);
  return begins(name, "ld-linux") || begins(name, "linux-vdso") || begins(name, "linux-gate") ||
         is_ourselves(object);
}

bool is_driver(const dl_phdr_info& object) {
  const char* const name = file_name(object);
  return begins(name, "libcuda.so") || begins(name, "libnvidia-") || begins(name, "libc.so.6");
}

/// Numbers of names: first kNames from 1 on, then the driver's functions, then those of other
/// allocators. 0: no such name.
constexpr size_t kFirstOfDriver = kNameCount + 1;
size_t first_of_allocators() {
  return kFirstOfDriver + kDriverRowCount;
}

size_t name_number(const char* name) {
  for (size_t i = 0; i < kNameCount; ++i) {
    if (kNames[i][0] == name[0] && strcmp(kNames[i], name) == 0) return i + 1;
  }
  if (const DriverRow* const row = driver_row_of(name))
    return kFirstOfDriver + static_cast<size_t>(row - g_driver_rows);
  for (size_t row = 0; row < allocator_function_count(); ++row) {
    const char* const its = allocator_function(row).name;
    if (its[0] == name[0] && replaced_function(row).entry != nullptr && strcmp(its, name) == 0)
      return first_of_allocators() + row;
  }
  return 0;
}

/// The number for a slot of an allocator's library: calls by which it takes memory from below are
/// hooked, calls of heap functions are its own.
size_t name_number_in_allocator(const char* name) {
  const size_t number = name_number(name);
  return number > kHeapNames && number < first_of_allocators() ? number : 0;
}

const char* name_of(size_t number) {
  if (number < kFirstOfDriver) return kNames[number - 1];
  return number < first_of_allocators() ? driver_rows()[number - kFirstOfDriver].export_name.data()
                                        : allocator_function(number - first_of_allocators()).name;
}

Hook hook_of(size_t number) {
  if (number < kFirstOfDriver) return g_hooks[number - 1];
  if (number >= first_of_allocators()) {
    const size_t row = number - first_of_allocators();
    return {reinterpret_cast<uintptr_t>(allocator_hook(row)),
            reinterpret_cast<uintptr_t>(replaced_function(row).original)};
  }
  const DriverRow& row = driver_rows()[number - kFirstOfDriver];
  return {reinterpret_cast<uintptr_t>(row.hook), reinterpret_cast<uintptr_t>(row.exported)};
}

void hook_import(size_t number, const ImportSlot& slot) {
  const Hook hook = hook_of(number);
  if (hook.hook == 0 || hook.real == 0 || *slot.at == hook.hook) return;
  if (leads_to(slot, name_of(number), hook.real)) g_slots.hook(slot, hook.hook);
}

/// Calls `visit(word, read_only)` for each word of the object's data.
template <typename Visit>
void for_each_word(const dl_phdr_info& object, Visit visit) {
  const AddressRange relro = relro_of(object);
  for_each_part(object, PT_LOAD, [&](const ElfW(Phdr) & part, AddressRange memory) {
    if ((part.p_flags & PF_W) == 0) return false;
    uintptr_t at = (memory.begin + 7) & ~uintptr_t{7};
    for (; at + sizeof(uintptr_t) <= memory.end; at += sizeof(uintptr_t))
      visit(reinterpret_cast<uintptr_t*>(at), relro.holds(at));
    return false;
  });
}

/// The range of addresses of the driver's functions.
AddressRange driver_code() {
  AddressRange code{UINTPTR_MAX, 0};
  const auto add = [&code](const void* function) {
    const auto at = reinterpret_cast<uintptr_t>(function);
    if (at == 0) return;
    code.begin = std::min(code.begin, at);
    code.end = std::max(code.end, at + 1);
  };
  if (!g_driver_is_resolved.load(std::memory_order_acquire)) return code;
  for (const DriverRow& row : driver_rows()) {
    add(row.exported);
    add(row.looked_up);
  }
  return code;
}

/// Hooks the driver's functions that a client got from cuGetProcAddress or dlsym before, and keeps
/// in its data: CUDA's runtime has a table of them. A word with such a function's address is taken
/// for that function.
void hook_data(const dl_phdr_info& object, const AddressRange& driver) {
  for_each_word(object, [&](uintptr_t* word, bool read_only) {
    if (!driver.holds(*word)) return;
    if (void* const hook = hook_of_address(reinterpret_cast<void*>(*word)))
      g_slots.hook({word, read_only, true}, reinterpret_cast<uintptr_t>(hook));
  });
}

/// Replaces our hooks in a client's data, also those that it got since, by the driver's functions.
void put_back_data(const dl_phdr_info& object) {
  for_each_word(object, [](uintptr_t* word, bool read_only) {
    if (!is_own_code(*word)) return;
    for (const DriverRow& it : driver_rows()) {
      if (reinterpret_cast<uintptr_t>(it.hook) != *word) continue;
      const void* const real = it.exported != nullptr ? it.exported : it.looked_up;
      if (real != nullptr)
        HookedSlot{word, *word, *word, read_only}.write(*word, reinterpret_cast<uintptr_t>(real));
      return;
    }
  });
}

void list_complete_objects() {
  g_object_count = 0;
  for_each_object([](const dl_phdr_info& object) {
    g_loads_seen = object.dlpi_adds;
    if (g_slots.count == 0) g_unloads_at_first = object.dlpi_subs;
    if (g_object_count < kMostObjects) g_objects[g_object_count++] = object.dlpi_addr;
    return false;
  });
  if (!wait_until_loaded()) g_object_count = 0;
}

bool is_complete(const dl_phdr_info& object) {
  uintptr_t* const end = g_objects + g_object_count;
  return std::find(g_objects, end, object.dlpi_addr) != end;
}

void hook_objects() {
  // For a program that loads and unloads libraries all the time.
  if (g_slots.count >= kMostSlots / 2) g_slots.forget_unloaded();
  list_complete_objects();
  // Each time anew, since a library may have come or gone.
  for (size_t i = 0; i < kNameCount; ++i)
    g_hooks[i].real = reinterpret_cast<uintptr_t>(find_next(kNames[i]));
  has_driver();  // asks the driver for its functions, if it is loaded
  const AddressRange driver = driver_code();
  for_each_object([&](const dl_phdr_info& object) {
    if (is_left_alone(object) || !is_complete(object)) return false;
    for_each_import(object, is_allocator_library(object) ? &name_number_in_allocator : &name_number,
                    &hook_import);
    if (driver.end != 0 && !is_driver(object)) hook_data(object, driver);
    return false;
  });
}

size_t put_back_known_slots() {
  size_t lost = 0;
  HookedSlot* const end = g_slots.slots + g_slots.count;
  std::sort(g_slots.slots, end, [](const HookedSlot& a, const HookedSlot& b) {
    return a.at != b.at ? a.at < b.at : a.number < b.number;
  });
  for (const HookedSlot* it = g_slots.slots; it != end; ++it) {
    const HookedSlot& slot = *it;
    // Where a library took the place of another, only its slots are true ones.
    if (it + 1 != end && it[1].at == slot.at) continue;
    const bool is_there = data_end(slot.at) != nullptr;  // false: its library is gone
    if (is_there && !slot.write(slot.hook, slot.was) && *slot.at != slot.was) ++lost;
  }
  g_slots.count = 0;
  return lost;
}

/// Not inside a hook of ours, where arenas cannot be taken over.
bool may_cover() {
  if (!g_hooked.load(std::memory_order_acquire) || !recording()) return false;
  const HookScope scope;
  return scope.entered();
}

void be_busy() {
  while (g_busy.exchange(true, std::memory_order_acquire)) sys::sched_yield();
}
void end_busy() {
  g_busy.store(false, std::memory_order_release);
}

/// Makes room for slots. False: there is no memory. Call it once before hook_all_slots().
bool prepare_slots() {
  if (g_slots.slots == nullptr)
    g_slots.slots = static_cast<HookedSlot*>(reserve_pages(kMostSlots * sizeof(HookedSlot)));
  with_object_around(&g_hooks, [](const dl_phdr_info& object) {
    for (size_t i = 0; i < kNameCount; ++i)
      g_hooks[i].hook = reinterpret_cast<uintptr_t>(find_symbol(object, kNames[i]).at);
  });
  return g_slots.slots != nullptr && g_hooks[0].hook != 0;
}

/// Makes all slots lead to our hooks, and takes over frameworks' arenas. Libraries that are just
/// being loaded are left out until the program looks up their functions.
void hook_all_slots() {
  be_busy();
  hook_objects();
  // Again, since the loader may have just filled in a slot with the real function, at its first
  // call.
  hook_objects();
  adapters_take_over_loaded(Loaded::kWhole);
  g_hooked = true;
  end_busy();
}

/// Makes slots lead where they led before. Returns how many slots hold something else by now; 0 if
/// libraries were unloaded since, as others may have come in their places.
size_t put_back_slots() {
  be_busy();
  g_hooked = false;
  size_t lost = 0;
  for_each_object([&](const dl_phdr_info& object) {  // once; no library is unloaded meanwhile
    lost = put_back_known_slots();
    if (object.dlpi_subs != g_unloads_at_first) lost = 0;
    return true;
  });
  for_each_object([](const dl_phdr_info& object) {
    if (!is_left_alone(object) && !is_driver(object)) put_back_data(object);
    return false;
  });
  call_adapters(&Adapter::put_back);
  end_busy();
  return lost;
}

// `gpupeak attach` and `detach` make a thread of the program call these functions, while that
// thread is in no allocator, loader or signal handler (tools/safe_point). The other threads go on
// meanwhile.

/// Whether attach() has come to its end. If the command gives it up in its middle, a detach ends
/// what was begun, and the log says that it is not whole.
constinit bool g_is_whole = false;

void define_fact_in_scope(const char* name, const char* value) {
  const HookScope scope;
  define_fact(name, value);
}

void define_given_facts(const gpupeak_attach_call& call) {
  const char* at = call.facts;
  while (*at != 0) {
    const char* const value = at + strlen(at) + 1;
    define_fact_in_scope(at, value);
    at = value + strlen(value) + 1;
  }
}

/// Clients of NVTX 2 call functions of a library that nobody has described, so they are not seen.
void say_if_nvtx_2_is_there() {
  bool is_there = false;
  for_each_object([&is_there](const dl_phdr_info& object) {
    return is_there = begins(file_name(object), "libnvToolsExt.so");
  });
  if (is_there) define_fact_in_scope("attach.unseen", "marks of NVTX 2 (libnvToolsExt)");
}

/// Tells the caller the log's path, and how many slots lead to our hooks.
void tell_log(gpupeak_attach_call& call) {
  const std::string_view path = log_path();
  memcpy(call.log, path.data(), path.size());
  call.log[path.size()] = 0;
  call.slots = g_slots.count;
}

bool begin_window_in_scope(uint32_t mode) {
  const HookScope scope;
  return open_window(*g_process, mode);
}

gpupeak_attach_answer attach(gpupeak_attach_call& call) {
  if (!prepare_slots()) return GPUPEAK_ATTACH_NO_MEMORY;
  long error = 0;
  const gpupeak_attach_answer result = attach_process(call.log, error);
  call.error = static_cast<int32_t>(-error);
  if (result != GPUPEAK_ATTACH_DONE) return result;
  g_is_whole = false;
  define_fact_in_scope("attach.is_whole", "no");
  if (leaves_allocator_out()) set_quality(GPUPEAK_Q_SECOND_MALLOC);
  // Finds the real functions now, in a thread that may ask the loader, and not at the first call of
  // any thread.
  void* volatile block = malloc(1);
  free(block);
  sbrk(0);
  define_given_facts(call);
  say_if_nvtx_2_is_there();
  enter_process_phase("main");
  hook_all_slots();
  read_devices_at_attach();
  tell_log(call);
  if (call.host_mode <= GPUPEAK_HOST_COUNTERS || begin_window_in_scope(call.host_mode)) {
    define_fact_in_scope("attach.is_whole", "yes");
    g_is_whole = true;
    return GPUPEAK_ATTACH_DONE;
  }
  detach_process();
  put_back_slots();
  return GPUPEAK_ATTACH_NO_MEMORY;
}

template <typename Do>
void answer(gpupeak_attach_call* call, Do what) {
  const KeptErrno program_errno;
  call->answer = call->version == GPUPEAK_ATTACH_VERSION ? what() : GPUPEAK_ATTACH_VERSION_DIFFERS;
}

}  // namespace

void hold_slots_over_fork() {
  constexpr int kMostPauses = 100;  // the busy thread may wait for a lock of this thread's
  constexpr timespec kPause{0, 1'000'000};
  if (g_slots.slots == nullptr) return;
  for (int i = 0; i < kMostPauses && !t_is_busy; ++i) {
    t_is_busy = !g_busy.exchange(true, std::memory_order_acquire);
    if (!t_is_busy) sys::nanosleep(&kPause);
  }
}

void release_slots_after_fork() {
  if (!t_is_busy) return;
  t_is_busy = false;
  end_busy();
}

void reset_slots_in_child() {
  t_is_busy = false;
  g_busy = false;
}

void cover_library_asked_for(Dlsym real, void* handle, const char* name) {
  if (!may_cover()) return;
  adapters_take_over_asked_for(real, handle, name);
  if (!g_hooked.load(std::memory_order_acquire)) call_adapters(&Adapter::put_back);
}

void cover_libraries_loaded_since() {
  if (!may_cover()) return;
  if (g_busy.exchange(true, std::memory_order_acquire)) return;
  if (g_hooked.load(std::memory_order_acquire) && loader_state().loads != g_loads_seen) {
    {
      const HookScope scope;
      hook_objects();
    }
    adapters_take_over_loaded(Loaded::kPerhapsInPart);
  }
  end_busy();
}

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

/// Tells whether the process can be attached to. Changes nothing.
GPUPEAK_EXPORT void gpupeak_api_attach_look(gpupeak_attach_call* call) {
  answer(call, [&] {
    call->flags_offset =
        static_cast<int64_t>(reinterpret_cast<uintptr_t>(&t_flags) - pthread_self());
    call->flags_words = 3;  // in_hook, in_allocator, in_driver
    call->was_attached = was_attached_before() ? 1 : 0;
    if (!came_late()) return GPUPEAK_ATTACH_PRELOADED;
    return recording() ? GPUPEAK_ATTACH_ALREADY : GPUPEAK_ATTACH_DONE;
  });
}

GPUPEAK_EXPORT void gpupeak_api_attach(gpupeak_attach_call* call) {
  answer(call, [&] { return attach(*call); });
}

GPUPEAK_EXPORT void gpupeak_api_detach(gpupeak_attach_call* call) {
  answer(call, [&] {
    if (!came_late() || !recording()) return GPUPEAK_ATTACH_NOT;
    tell_log(*call);
    if (g_is_whole) read_devices_at_detach();
    if (!detach_process()) return GPUPEAK_ATTACH_BUSY;
    call->lost_slots = put_back_slots();
    return GPUPEAK_ATTACH_DONE;
  });
}
