#include "track/counted_mappings.h"

#include <sys/mman.h>

#include <cstddef>

#include "base/futex_lock.h"
#include "log/log.h"
#include "thread/emit.h"

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
    const Mapping below{mapping.begin, begin, mapping.prot, mapping.kind};
    const Mapping above{end, mapping.end, mapping.prot, mapping.kind};
    add(below);
    add(above);
  }
  return gone;
}

}  // namespace

uint64_t note_counted_mapping(uint64_t at, uint64_t bytes, int prot, gpupeak_kind kind) {
  const LockGuard guard(g_lock);
  forget(at, at + bytes);
  add({at, at + bytes, prot, kind});
  return g_bytes;
}

uint64_t counted_mapping_bytes() {
  return __atomic_load_n(&g_bytes, __ATOMIC_RELAXED);
}

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
    const Mapping below{old.begin, at, old.prot, old.kind}, above{end, old.end, old.prot, old.kind};
    add(below);
    add(above);
  }
  return g_bytes;
}

CountedPieces forget_counted_mapping(uint64_t at, uint64_t bytes) {
  const LockGuard guard(g_lock);
  return forget(at, at + bytes);
}

void keep_counted_mappings(const CountedPieces& pieces) {
  const LockGuard guard(g_lock);
  for (uint32_t i = 0; i < pieces.count; ++i) {
    const Mapping& mapping = pieces.at[i];
    forget(mapping.begin, mapping.end);
    add(mapping);
  }
}

void log_counted_mappings() {
  const LockGuard guard(g_lock);
  for (size_t i = 0; i < g_count; ++i) {
    const Mapping& mapping = g_mappings[i];
    Record record(GPUPEAK_REC_MAP);
    record.u(mapping.begin).u(mapping.end - mapping.begin).u(static_cast<uint64_t>(mapping.prot));
    emit(record.u(mapping.kind).u(0));
  }
  g_count = 0;
  g_bytes = 0;
}

void reset_counted_mappings() {
  g_lock.reset();
  g_count = 0;
  g_bytes = 0;
}

}  // namespace gpupeak::preload
