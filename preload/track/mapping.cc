#include "track/mapping.h"

#include <sys/mman.h>

#include "base/hook_scope.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "gpupeak/pages.h"
#include "log/log.h"
#include "stack/python_runtime.h"
#include "thread/emit.h"
#include "thread/heap_sample.h"
#include "thread/resident.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {
namespace {

using Mapping = CountedMapping;
bool counts(const Mapping& mapping) {
  return mapping.kind == GPUPEAK_KIND_MMAP_ANON && (mapping.prot & PROT_WRITE) != 0;
}

/// Most processes have a few dozen mappings. Mappings beyond kMost are left out.
constexpr size_t kMost = 512;
constinit Mapping g_mappings[kMost] = {};
constinit size_t g_count = 0;
constinit uint64_t g_bytes = 0;
constinit FutexLock g_lock;

void add(const Mapping& mapping) {
  if (mapping.begin >= mapping.end || g_count == kMost) return;
  g_mappings[g_count++] = mapping;
  if (counts(mapping)) g_bytes += mapping.end - mapping.begin;
}

CountedPieces forget(uint64_t begin, uint64_t end) {
  CountedPieces gone;
  for (size_t i = 0; i < g_count;) {
    const Mapping mapping = g_mappings[i];
    if (mapping.end <= begin || mapping.begin >= end) {
      ++i;
      continue;
    }
    if (counts(mapping)) g_bytes -= mapping.end - mapping.begin;
    if (gone.count < CountedPieces::kMost) {
      gone.at[gone.count++] = {mapping.begin > begin ? mapping.begin : begin,
                               mapping.end < end ? mapping.end : end, mapping.prot, mapping.kind};
    }
    g_mappings[i] = g_mappings[--g_count];
    add({mapping.begin, begin, mapping.prot, mapping.kind});
    add({end, mapping.end, mapping.prot, mapping.kind});
  }
  return gone;
}

/// Notes a new mapping. Returns counted_mapping_bytes().
uint64_t note_counted_mapping(uint64_t at, uint64_t bytes, int prot, gpupeak_kind kind) {
  const LockGuard guard(g_lock);
  forget(at, at + bytes);
  add({at, at + bytes, prot, kind});
  return g_bytes;
}

/// A part of the mappings has another protection now. Returns counted_mapping_bytes().
uint64_t reprotect_counted_mapping(uint64_t at, uint64_t bytes, int prot) {
  const LockGuard guard(g_lock);
  const uint64_t end = at + bytes;
  for (size_t i = 0; i < g_count; ++i) {
    const Mapping old = g_mappings[i];
    if (old.end <= at || old.begin >= end || old.prot == prot) continue;
    Mapping& inside = g_mappings[i];
    inside = {old.begin > at ? old.begin : at, old.end < end ? old.end : end, prot, old.kind};
    if (counts(old)) g_bytes -= old.end - old.begin;
    if (counts(inside)) g_bytes += inside.end - inside.begin;
    add({old.begin, at, old.prot, old.kind});
    add({end, old.end, old.prot, old.kind});
  }
  return g_bytes;
}

/// The range is unmapped, or belongs to another mapping now.
CountedPieces forget_counted_mapping(uint64_t at, uint64_t bytes) {
  const LockGuard guard(g_lock);
  return forget(at, at + bytes);
}

/// The kernel refused to unmap them.
void keep_counted_mappings(const CountedPieces& pieces) {
  const LockGuard guard(g_lock);
  for (uint32_t i = 0; i < pieces.count; ++i) {
    const Mapping& mapping = pieces.at[i];
    forget(mapping.begin, mapping.end);
    add(mapping);
  }
}

/// Each byte has one owner. Memory that an allocator maps is counted as heap; memory that the
/// driver maps is the driver's.
gpupeak_kind kind_of(int flags) {
  if (is_in_driver()) return GPUPEAK_KIND_DRIVER;
  if (t_flags.in_allocator != 0) return GPUPEAK_KIND_BACKING;
  return (flags & MAP_ANONYMOUS) != 0 ? GPUPEAK_KIND_MMAP_ANON : GPUPEAK_KIND_MMAP_FILE;
}

void forget_memory(void* at, size_t bytes) {
  forget_stack_memory(address_of(at), address_of(at) + whole_pages(bytes));
}

/// For a mapping of an interpreter's allocator, which hands out parts of it. A Python line only
/// says who asked when the allocator was empty. For few mappings that is chance. Once one native
/// stack has mapped kSome bytes, the lines are a sample.
uint32_t site_of_shared_out(uint64_t bytes, const CallerFrame& caller) {
  constexpr uint64_t kSome = 4 << 20;
  const uint32_t node = capture_stack(caller);
  ThreadSlot* const slot = thread_slot();
  const bool is_some = slot != nullptr && slot->stacks.asked_for.comes_to(node, bytes, kSome);
  return is_some ? capture_call_site(slot->stacks, caller) : node;
}

/// The program's own mappings get their Python lines, as large blocks do.
uint32_t site_of(gpupeak_kind kind, uint64_t bytes, const CallerFrame& caller) {
  const bool is_programs = kind == GPUPEAK_KIND_MMAP_ANON || kind == GPUPEAK_KIND_MMAP_FILE;
  if (!is_programs) return capture_stack(caller);
  if (python_runtime_at(caller.ip) != nullptr) return site_of_shared_out(bytes, caller);
  return capture_call_site(caller);
}

/// Opens a HookScope and calls `make`, unless this is a nested call.
template <typename Make>
void log(Make make) {
  HookScope scope;
  if (!scope.entered()) return;  // mappings of our own and of libunwind
  if (!recording()) return;
  look_at_request(*g_process);
  make();
}

/// Counts a mapping of a process that is only counted. The log has it if there is a log later. The
/// mapping with which the process holds enough for a log is the first that is recorded: then this
/// returns false.
bool count_mapped(void* at, size_t bytes, int prot, int flags) {
  HookScope scope;
  if (!scope.entered()) return true;
  const uint64_t mapped_bytes =
      note_counted_mapping(address_of(at), whole_pages(bytes), prot, kind_of(flags));
  if (mapped_bytes + counted_heap_bytes() < g_process->counted_most) return true;
  forget_counted_mapping(address_of(at), whole_pages(bytes));
  open_counted_log(0);
  return !recording();
}
/// A mapping that was reserved before counts once it can be written. A log that begins here has it
/// with its new protection.
void count_reprotected(void* at, size_t bytes, int prot) {
  HookScope scope;
  if (!scope.entered()) return;
  const uint64_t mapped_bytes = reprotect_counted_mapping(address_of(at), whole_pages(bytes), prot);
  if (mapped_bytes + counted_heap_bytes() >= g_process->counted_most) open_counted_log(0);
}

/// Records that a range goes away.
Leaving leaves(uint8_t tag, void* at, size_t bytes) {
  Leaving leaving;
  if (g_process->counting != 0) {
    HookScope scope;
    if (scope.entered())
      leaving.counted = forget_counted_mapping(address_of(at), whole_pages(bytes));
    return leaving;
  }
  log([&] {
    forget_memory(at, bytes);
    if (tag == GPUPEAK_REC_UNMAP) sample_before_less(bytes);
    emit(Record{tag, address_of(at), whole_pages(bytes)});
    leaving.logged = true;
  });
  return leaving;
}

}  // namespace

uint64_t counted_mapping_bytes() {
  return __atomic_load_n(&g_bytes, __ATOMIC_RELAXED);
}

void log_counted_mappings() {
  const LockGuard guard(g_lock);
  for (size_t i = 0; i < g_count; ++i) {
    const Mapping& mapping = g_mappings[i];
    emit(Record{GPUPEAK_REC_MAP, mapping.begin, mapping.end - mapping.begin, mapping.prot,
                mapping.kind, 0});
  }
  g_count = 0;
  g_bytes = 0;
}

void reset_counted_mappings() {
  g_lock.reset();
  g_count = 0;
  g_bytes = 0;
}

void mapped(void* at, size_t bytes, int prot, int flags, const CallerFrame& caller) {
  if (g_process->counting != 0 && count_mapped(at, bytes, prot, flags)) return;
  log([&] {
    if ((flags & MAP_FIXED) != 0) forget_memory(at, bytes);
    const gpupeak_kind kind = kind_of(flags);
    emit(Record{GPUPEAK_REC_MAP, address_of(at), whole_pages(bytes), prot, kind,
                site_of(kind, whole_pages(bytes), caller)});
  });
}

void brk_moves(void* from, intptr_t by, const CallerFrame& caller) {
  // A mapping has whole pages, and brk any bytes.
  const uintptr_t old_end = page_end(reinterpret_cast<uintptr_t>(from));
  const uintptr_t new_end =
      page_end(reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(by));
  if (new_end > old_end)
    mapped(reinterpret_cast<void*>(old_end), new_end - old_end, PROT_READ | PROT_WRITE,
           MAP_ANONYMOUS, caller);
  else if (new_end < old_end)
    unmapping(reinterpret_cast<void*>(new_end), old_end - new_end);
  count(&gpupeak_counters_page::others_brk_bytes, new_end - old_end);
}

void reprotected(void* at, size_t bytes, int prot) {
  if (g_process->counting != 0) return count_reprotected(at, bytes, prot);
  log([&] {
    if ((prot & PROT_READ) == 0) forget_memory(at, bytes);
    emit(Record{GPUPEAK_REC_PROTECT, address_of(at), whole_pages(bytes), prot});
  });
}

Leaving unmapping(void* at, size_t bytes) {
  return leaves(GPUPEAK_REC_UNMAP, at, bytes);
}

Leaving remapping(void* old_at, size_t old_bytes) {
  return leaves(GPUPEAK_REC_REMAP_BEGIN, old_at, old_bytes);
}

void stays(const Leaving& leaving, void* at, size_t bytes) {
  if (leaving.counted.count != 0 && g_process->counting != 0) {
    HookScope scope;
    if (scope.entered()) keep_counted_mappings(leaving.counted);
  }
  if (!leaving.logged) return;
  log([&] { emit(Record{GPUPEAK_REC_REMAP_FAILED, address_of(at), whole_pages(bytes)}); });
}

void remapped(void* old_at, size_t old_bytes, void* new_at, size_t new_bytes,
              const CallerFrame& caller) {
  if (g_process->counting != 0)
    return mapped(new_at, new_bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, caller);
  log([&] {
    forget_memory(old_at, old_bytes);
    emit(Record{GPUPEAK_REC_REMAP, address_of(old_at), whole_pages(old_bytes), address_of(new_at),
                whole_pages(new_bytes), capture_stack(caller)});
  });
}

}  // namespace gpupeak::preload
