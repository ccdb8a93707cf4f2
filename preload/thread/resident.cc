#include "thread/resident.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/arch.h"
#include "base/clock.h"
#include "base/copied_memory.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "gpupeak/smaps.h"
#include "log/log.h"
#include "log/log_file.h"
#include "stack/module_map.h"
#include "thread/emit.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {
namespace {

constinit std::atomic<uint64_t> g_highest{0};
constinit std::atomic<uint64_t> g_peak{0};
constinit std::atomic<uint64_t> g_last_ns{0}, g_cost_ns{0};
constinit std::atomic<uint64_t> g_log_in_memory{0};  ///< of the log, which is no file's then
constinit std::atomic<bool> g_is_glibc{false};
/// Live bytes of blocks that malloc maps alone; see note_large_block().
constinit std::atomic<int64_t> g_mapped_alone{0};

/// The largest of `bytes`, which the kernel calls the most that was resident, and of what it called
/// so before: its figure falls again (by 168 KiB, Linux 6.18), because each processor counts pages
/// of its own, and what it remembers when memory goes is read without them.
uint64_t highest_resident(uint64_t bytes) {
  raise_to(g_peak, bytes);
  return g_peak.load(std::memory_order_relaxed);
}

struct Causes {
  ResidentParts parts;
  uint64_t log = 0;
  uint64_t own = 0;          ///< of this library
  uint64_t static_data = 0;  ///< of parts.anonymous: variables of modules that begin as zeros
};

/// Variables that begin as zeros (.bss) are no part of their module's file. The kernel makes one
/// mapping of them and of what the program has mapped right behind.
uint64_t static_data_of(const Mapping& mapping, uint64_t bytes) {
  const uint64_t end = page_end(module_end_at(mapping.begin));
  return end <= mapping.begin ? 0 : std::min(bytes, end - mapping.begin);
}

void add(Causes& causes, const Mapping& mapping, const Mapping& before, MappingPages pages) {
  if (pages.bytes() == 0) return;
  const uint64_t own = std::min(pages.anonymous, own_within(mapping.begin, mapping.end));
  causes.own += own;
  pages.anonymous -= own;
  pages.rss -= own;
  if (mapping.name == log_path()) {
    causes.log += pages.rss;
    return;
  }
  const ResidentKind kind =
      pages.is_growing_stack ? ResidentKind::kStacks : smaps::kind_of(mapping, before, copy_word);
  smaps::add_pages(mapping, kind, pages, causes.parts);
  if (kind == ResidentKind::kAnonymous) causes.static_data += static_data_of(mapping, pages.rss);
}

bool read_causes(Causes& causes) {
  Mapping mapping, before;
  MappingPages pages;
  char name[64] = {};  // of `mapping`: the line is gone when its figures come
  char buffer[4096];
  const auto take = [&](const char* line) {
    Mapping next;
    if (!smaps::parse_mapping(line, next)) return smaps::add_line(line, pages);
    add(causes, mapping, before, pages);
    pages = {};
    before = mapping;
    before.name = before.name.empty() ? std::string_view() : std::string_view("other");
    mapping = next;
    const bool is_log = next.name == log_path();
    mapping.name = is_log ? log_path() : head(next.name, sizeof name - 1);
    if (is_log) return;
    memcpy(name, mapping.name.data(), mapping.name.size());
    mapping.name = {name, mapping.name.size()};
  };
  const bool was_read =
      for_each_line("/proc/self/smaps", buffer, sizeof buffer, [&](const char* line) {
        take(line);
        return false;
      });
  add(causes, mapping, before, pages);
  const ResidentStatus status = resident_status();
  const bool is_in_memory = status.shared >= causes.parts.shared + causes.log;  // a tmpfs
  g_log_in_memory.store(is_in_memory ? causes.log : 0, std::memory_order_relaxed);
  smaps::find_other_shared(status.shared, causes.log, causes.parts);
  highest_resident(status.peak);
  return was_read;
}

/// What malloc keeps of freed memory, with its word before each block: what is resident where it
/// puts blocks, less those in use there and what others have taken there (brk). malloc itself is
/// not asked: mallinfo2() waits for the lock of each arena, which a thread may hold that somebody
/// has stopped.
uint64_t kept_by_malloc(uint64_t resident_bytes, int64_t heap_bytes) {
  const auto others_brk = static_cast<int64_t>(
      std::atomic_ref<uint64_t>(counters().others_brk_bytes).load(std::memory_order_relaxed));
  const int64_t in_use = inherited_heap_bytes() + heap_bytes + others_brk -
                         g_mapped_alone.load(std::memory_order_relaxed);
  const auto resident = static_cast<int64_t>(resident_bytes);
  return resident > in_use && in_use >= 0 ? static_cast<uint64_t>(resident - in_use) : 0;
}

/// Logs a RESIDENT record if `resident_bytes` is so much more than at the last one that reading the
/// list is worth it: the kernel goes over each resident page for that. At most one part in 256 of
/// the process's time is spent so, but for the first look and one at the end, where less is worth
/// it: else short processes would have none.
void note_resident_memory(uint64_t resident_bytes, bool at_end = false) {
  constexpr uint64_t kWorth = 4 << 20, kPart = 256;
  uint64_t highest = g_highest.load(std::memory_order_relaxed);
  const uint64_t more = highest == 0 || !at_end ? highest / 16 + kWorth : highest / 256;
  if (resident_bytes < highest + more) return;
  const uint64_t now = monotonic_ns();
  if ((!at_end && now - g_last_ns.load(std::memory_order_relaxed) <
                      g_cost_ns.load(std::memory_order_relaxed) * kPart) ||
      is_short_of_stack() ||
      !g_highest.compare_exchange_strong(highest, resident_bytes, std::memory_order_relaxed)) {
    return;
  }
  flush_own_slot();
  Causes causes;
  if (!read_causes(causes)) return;
  g_own_bytes.store(causes.own, std::memory_order_relaxed);
  const auto heap = static_cast<int64_t>(
      std::atomic_ref<uint64_t>(counters().heap.live).load(std::memory_order_relaxed));
  const ResidentParts& parts = causes.parts;
  const bool is_known = g_is_glibc.load(std::memory_order_relaxed);
  const uint64_t kept_plus_1 = is_known ? kept_by_malloc(parts.malloc, heap) + 1 : 0;
  emit(Record{GPUPEAK_REC_RESIDENT,
              parts.files + parts.written + parts.shared + parts.driver + parts.stacks +
                  parts.malloc + parts.anonymous + causes.log + causes.own,
              parts.files, parts.shared, parts.driver, parts.stacks, parts.malloc + parts.anonymous,
              causes.log, causes.own, kept_plus_1, heap > 0 ? static_cast<uint64_t>(heap) : 0,
              causes.static_data, parts.written});
  const uint64_t end = monotonic_ns();
  g_last_ns.store(end, std::memory_order_relaxed);
  g_cost_ns.store(end - now, std::memory_order_relaxed);
}

/// This process's proportional share of what is resident: pages that others have, too, count in
/// part. 0: not known. As slow.
uint64_t proportional_bytes() {
  char text[4096];
  text[read_file("/proc/self/smaps_rollup", text, sizeof text - 1)] = 0;
  return kib_behind("\nPss:", text);
}

constinit std::atomic<uint64_t> g_last_sample_ns{0};
constinit std::atomic<uint64_t> g_sample_cost_ns{0};  ///< what the last sample took

constinit bool g_shares_pages = false;

/// `own_plus_1`: value + 1; 0: not read.
void log_sample(uint64_t resident, uint64_t resident_file, uint64_t own_plus_1) {
  const uintptr_t top = sys::brk(0);
  const uint64_t share = g_shares_pages && !is_short_of_stack() ? proportional_bytes() : 0;
  std::atomic_ref<uint64_t>(counters().self_bytes)
      .store(g_own_bytes + mapped_log_bytes(), std::memory_order_relaxed);
  emit(Record{GPUPEAK_REC_SAMPLE, resident, resident_file,
              top > g_process->initial_brk ? top - g_process->initial_brk : 0,
              share != 0 ? share + 1 : 0, own_plus_1});
}

}  // namespace

void note_malloc_of_glibc() {
  g_is_glibc.store(true, std::memory_order_relaxed);
}

void note_large_block(int64_t usable_bytes) {
  // glibc's malloc maps blocks of this size and more alone, if it can. Such a block has two words
  // before it and fills its pages, so that its size is a multiple of 16. A block of an arena has
  // one word before it: its size is 8 more than such a multiple.
  constexpr int64_t kLeast = 128 << 10;
  if ((usable_bytes >= kLeast || usable_bytes <= -kLeast) && usable_bytes % 16 == 0)
    g_mapped_alone.fetch_add(usable_bytes, std::memory_order_relaxed);
}

void forget_resident_memory() {
  g_highest.store(0, std::memory_order_relaxed);
  g_peak.store(0, std::memory_order_relaxed);
  g_last_ns.store(0, std::memory_order_relaxed);
}

void share_pages() {
  g_shares_pages = true;
}

void sample_at_border() {
  // A phase may be an inference of a millisecond. At most one part in kPart of its time goes to
  // samples.
  constexpr uint64_t kShortestNs = 1'000'000, kPart = 256;
  const uint64_t cost = g_sample_cost_ns.load(std::memory_order_relaxed);
  const uint64_t shortest = cost * kPart > kShortestNs ? cost * kPart : kShortestNs;
  if (monotonic_ns() - g_last_sample_ns.load(std::memory_order_relaxed) >= shortest) {
    sample_process();
  }
}

void sample_process() {
  const uint64_t now = monotonic_ns();
  g_last_sample_ns.store(now, std::memory_order_relaxed);
  char text[128];
  const size_t bytes = read_file("/proc/self/statm", text, sizeof text - 1);
  if (bytes == 0) return;
  text[bytes] = 0;
  const char* at = text;
  next_number(at);  // total size
  const uint64_t resident = next_number(at) * arch::page_bytes();
  const uint64_t resident_file = next_number(at) * arch::page_bytes();
  log_sample(resident, resident_file, 0);
  g_sample_cost_ns.store(monotonic_ns() - now, std::memory_order_relaxed);
  note_resident_memory(resident);
}

void sample_at_end() {
  const ResidentStatus status = resident_status();
  counters().rss_peak_bytes = highest_resident(status.peak);
  if (status.resident == 0) return;
  note_resident_memory(status.resident, true);
  const uint64_t all = status.resident + status.huge_pages;
  const uint64_t beside = status.files + g_own_bytes + g_log_in_memory;
  log_sample(status.resident, status.files + status.shared,
             !status.knows_its_pages ? 0
             : all > beside          ? all - beside + 1
                                     : 1);
}

}  // namespace gpupeak::preload
