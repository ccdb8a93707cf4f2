// malloc and its family. No logic here: call the real one, tell track/heap.
#include <cerrno>
#include <cstring>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/loader.h"
#include "base/malloc_entry.h"
#include "base/next_functions.h"
#include "base/process_state.h"
#include "hooks/allocators.h"
#include "hooks/export.h"
#include "hooks/process.h"
#include "stack/unwinder.h"
#include "thread/resident.h"
#include "track/heap.h"

namespace gpupeak::preload {
namespace {

constexpr MallocEntry& g_entry = gpupeak_malloc_entry;

/// Blocks of __libc_malloc are of the same allocator, so their sizes are known.
constinit bool g_is_glibcs = false;

/// Whether this is a Valgrind tool that looks for errors, such as memcheck. Such a tool replaces
/// the allocator's functions by a library of its own, beside the core's. Then the word before a
/// block must not be read, and every word that the kernel reads must have a value.
bool errors_are_looked_for() {
  bool found = false;
  for_each_object([&](const dl_phdr_info& object) {
    constexpr char kOfValgrind[] = "vgpreload_", kCore[] = "vgpreload_core";
    const char* name = file_name(object);
    found = strncmp(name, kOfValgrind, sizeof kOfValgrind - 1) == 0 &&
            strncmp(name, kCore, sizeof kCore - 1) != 0;
    return found;
  });
  return found;
}

/// Whether blocks are glibc's own.
bool is_glibc(const void* usable_size, bool is_replaced_in_place) {
  const auto is_libc = [](const void* function) { return is_in(function, "libc.so.6"); };
  return arch::kPlainAddresses && is_libc(reinterpret_cast<const void*>(g_entry.malloc)) &&
         is_libc(reinterpret_cast<const void*>(g_entry.free)) && is_libc(usable_size) &&
         find_in("libc.so.6", "gnu_get_libc_version") != nullptr && !is_replaced_in_place;
}

/// Threads that come here at the same time find the same addresses.
__attribute__((noinline)) void resolve_all() {
  const NextFunctions& real = next();
  const BlockSize::UsableSize usable_size = real.malloc_usable_size;
  g_entry.free = real.free;
  g_entry.malloc = real.malloc;
  const bool looked_for = errors_are_looked_for();
  if (looked_for) probe_by_copies();
  const bool glibc = is_glibc(reinterpret_cast<const void*>(usable_size), looked_for);
  if (glibc) note_malloc_of_glibc();
  g_is_glibcs = glibc;
  constexpr BlockSize::UsableSize kUnknown = [](void*) { return size_t{0}; };
  g_entry.usable_bytes.init(usable_size != nullptr ? usable_size : kUnknown, glibc);
  __atomic_store_n(&g_entry.resolved, true, __ATOMIC_RELEASE);
}

/// The allocator that the program would have without us: libc's, or another preloaded one.
inline NextFunctions& real() {
  if (__builtin_expect(!__atomic_load_n(&g_entry.resolved, __ATOMIC_ACQUIRE), 0)) resolve_all();
  return g_next;
}

/// Whether this call is to be recorded.
inline bool records() {
  if (host_recording()) return true;
  if (__atomic_load_n(&g_entry.passes, __ATOMIC_RELAXED)) return false;
  const bool is_off = environment().host_mode == static_cast<uint32_t>(HostMode::kOff);
  if (is_off && g_process->decided != 0) __atomic_store_n(&g_entry.passes, true, __ATOMIC_RELEASE);
  return false;
}

__attribute__((noinline, cold)) void note_failure(const char* name, size_t bytes,
                                                  const CallerFrame& caller) {
  host_allocation_failed(GPUPEAK_KIND_HEAP, name, bytes, errno, caller);
}

/// An allocator's function that calls another one of ours counts once.
template <typename Call>
inline __attribute__((always_inline)) auto in_allocator(Call call) {
  t_flags.in_allocator = arch::stack_pointer();
  in_order();
  const auto result = call();
  in_order();
  t_flags.in_allocator = 0;
  return result;
}

/// Calls `allocate` and records its block, unless an allocator function called another one.
template <typename Allocate>
inline __attribute__((always_inline)) void* record_allocation(const char* name, size_t bytes,
                                                              const CallerFrame& caller,
                                                              Allocate allocate) {
  if (ThreadSlot* slot = slot_that_counts(); slot != nullptr && is_counted_alone(*slot, bytes)) {
    void* block = in_allocator(allocate);
    if (__builtin_expect(block != nullptr, 1)) {
      count_allocated(*slot, bytes, g_entry.usable_bytes(block));
    } else {
      note_failure(name, bytes, caller);
    }
    return block;
  }
  if (!records()) return allocate();
  void* block;
  {
    AllocatorScope scope;
    if (!scope.entered()) return allocate();
    block = allocate();
  }
  if (__builtin_expect(block != nullptr, 1)) {
    heap_allocated(block, bytes, g_entry.usable_bytes(block), caller);
  } else {
    note_failure(name, bytes, caller);
  }
  return block;
}

template <typename Free>
inline __attribute__((always_inline)) void record_free(void* block, Free free_block) {
  if (ThreadSlot* slot = slot_that_counts();
      slot != nullptr && block != nullptr && was_counted_alone(block)) {
    count_freed(*slot, g_entry.usable_bytes(block));
    in_allocator([&] { return free_block(), 0; });
    return;
  }
  if (block == nullptr || !records()) return free_block();
  if (t_flags.in_allocator == 0) heap_freed(block, g_entry.usable_bytes);
  AllocatorScope scope;
  free_block();
}

template <typename Reallocate>
inline __attribute__((always_inline)) void* record_reallocation(const char* name, void* old_block,
                                                                size_t bytes,
                                                                const CallerFrame& caller,
                                                                Reallocate reallocate) {
  if (old_block == nullptr) return record_allocation(name, bytes, caller, reallocate);
  if (ThreadSlot* slot = slot_that_counts(); slot != nullptr && bytes != 0 &&
                                             is_counted_alone(*slot, bytes) &&
                                             was_counted_alone(old_block)) {
    const size_t old_usable_bytes = g_entry.usable_bytes(old_block);
    void* block = in_allocator(reallocate);
    if (__builtin_expect(block != nullptr, 1)) {
      count_reallocated(*slot, bytes, old_usable_bytes, g_entry.usable_bytes(block));
    } else {
      note_failure(name, bytes, caller);
    }
    return block;
  }
  if (!records() || t_flags.in_allocator != 0) return reallocate();
  const ReallocState state = heap_realloc_begin(old_block, g_entry.usable_bytes(old_block));
  void* block;
  {
    AllocatorScope scope;
    block = reallocate();
  }
  if (block != nullptr) {
    heap_realloc_end(state, block, bytes, g_entry.usable_bytes(block), caller);
  } else if (bytes == 0) {
    heap_realloc_freed(state, old_block);
  } else {
    heap_realloc_failed(state, old_block);
    note_failure(name, bytes, caller);
  }
  return block;
}

/// `function`: nullptr where the allocator lacks it.
template <typename Function, typename... Sizes>
void free_by(Function function, void* block, Sizes... sizes) {
  record_free(block,
              [&] { function != nullptr ? function(block, sizes...) : g_entry.free(block); });
}

void* missing() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

void real_allocator_moved(const void* from, const void* to) {
  NextFunctions& next = real();
  g_is_glibcs = false;
  const auto move_one = [&](auto& function) {
    if (reinterpret_cast<const void*>(function) == from)
      function = reinterpret_cast<decltype(+function)>(const_cast<void*>(to));
  };
  const auto move = [&](auto&... functions) { (move_one(functions), ...); };
  move(g_entry.malloc, g_entry.free, next.calloc, next.realloc, next.posix_memalign,
       next.aligned_alloc, next.memalign, next.valloc, next.pvalloc, next.free_sized,
       next.free_aligned_sized);
}

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

// malloc and free are in malloc_entry_*.S. They jump to these two, so that the frames of these are
// those of malloc and free themselves; or to the real ones, where nothing is recorded.

extern "C" GPUPEAK_HOT void* gpupeak_record_malloc(size_t bytes) {
  real();
  return record_allocation("malloc", bytes, GPUPEAK_CALLER, [&] { return g_entry.malloc(bytes); });
}

extern "C" GPUPEAK_HOT void gpupeak_record_free(void* block) {
  real();
  record_free(block, [&] { g_entry.free(block); });
}

extern "C" void gpupeak_free_of_loader(void* block) {
  loader_has_freed();
  if (__atomic_load_n(&g_entry.passes, __ATOMIC_RELAXED)) return g_entry.free(block);
  gpupeak_record_free(block);
}

GPUPEAK_EXPORT void* calloc(size_t count, size_t bytes) {
  const NextFunctions& next = real();
  size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) total = SIZE_MAX;  // it will fail
  return record_allocation("calloc", total, GPUPEAK_CALLER,
                           [&] { return next.calloc(count, bytes); });
}

GPUPEAK_EXPORT void* realloc(void* block, size_t bytes) {
  const NextFunctions& next = real();
  return record_reallocation("realloc", block, bytes, GPUPEAK_CALLER,
                             [&] { return next.realloc(block, bytes); });
}

GPUPEAK_EXPORT void* reallocarray(void* block, size_t count, size_t bytes) {
  const NextFunctions& next = real();
  size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) return missing();
  return record_reallocation("reallocarray", block, total, GPUPEAK_CALLER,
                             [&] { return next.realloc(block, total); });
}

GPUPEAK_EXPORT int posix_memalign(void** block, size_t alignment, size_t bytes) {
  const NextFunctions& next = real();
  int result = 0;
  int real_errno = 0;  // it says nothing by that
  record_allocation("posix_memalign", bytes, GPUPEAK_CALLER, [&] {
    result = next.posix_memalign(block, alignment, bytes);
    real_errno = errno;
    errno = result;
    return result == 0 ? *block : nullptr;
  });
  errno = real_errno;
  return result;
}

/// `is_known`: whether blocks are of the allocator that tells sizes.
#define GPUPEAK_ALLOCATES(function, is_known, parameters, bytes, ...)     \
  GPUPEAK_EXPORT void* function parameters {                              \
    const NextFunctions& next = real();                                   \
    if (next.function == nullptr) return missing();                       \
    if (!(is_known)) return next.function(__VA_ARGS__);                   \
    return record_allocation(#function, bytes, GPUPEAK_CALLER,            \
                             [&] { return next.function(__VA_ARGS__); }); \
  }
GPUPEAK_ALLOCATES(aligned_alloc, true, (size_t alignment, size_t bytes), bytes, alignment, bytes)
GPUPEAK_ALLOCATES(memalign, true, (size_t alignment, size_t bytes), bytes, alignment, bytes)
GPUPEAK_ALLOCATES(valloc, true, (size_t bytes), bytes, bytes)
GPUPEAK_ALLOCATES(pvalloc, true, (size_t bytes), bytes, bytes)

// C23. An allocator that lacks them gets the plain free, which does the same.
GPUPEAK_EXPORT void free_sized(void* block, size_t bytes) {
  free_by(real().free_sized, block, bytes);
}

GPUPEAK_EXPORT void free_aligned_sized(void* block, size_t alignment, size_t bytes) {
  free_by(real().free_aligned_sized, block, alignment, bytes);
}

// glibc's own names for the same, by which some pass other allocators by.
GPUPEAK_ALLOCATES(__libc_malloc, g_is_glibcs, (size_t bytes), bytes, bytes)
GPUPEAK_ALLOCATES(__libc_calloc, g_is_glibcs, (size_t n, size_t bytes), (n * bytes), n, bytes)
GPUPEAK_ALLOCATES(__libc_memalign, g_is_glibcs, (size_t to, size_t bytes), bytes, to, bytes)
GPUPEAK_ALLOCATES(__libc_valloc, g_is_glibcs, (size_t bytes), bytes, bytes)
GPUPEAK_ALLOCATES(__libc_pvalloc, g_is_glibcs, (size_t bytes), bytes, bytes)

GPUPEAK_EXPORT void* __libc_realloc(void* block, size_t bytes) {
  const NextFunctions& next = real();
  const auto call = [&] { return next.__libc_realloc(block, bytes); };
  return g_is_glibcs ? record_reallocation("__libc_realloc", block, bytes, GPUPEAK_CALLER, call)
                     : call();
}

GPUPEAK_EXPORT void __libc_free(void* block) {
  const NextFunctions& next = real();
  const auto call = [&] { next.__libc_free(block); };
  g_is_glibcs ? record_free(block, call) : call();
}
