#include "thread/resident.h"

#include <atomic>
#include <cstring>
#include <string_view>

#include "base/clock.h"
#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "gpupeak/smaps.h"
#include "log/log.h"
#include "log/log_file.h"
#include "thread/emit.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {
namespace {

constinit std::atomic<uint64_t> g_highest{0};
constinit std::atomic<uint64_t> g_last_ns{0}, g_cost_ns{0};

struct Causes {
  uint64_t files = 0, shared = 0, driver = 0, stacks = 0, anonymous = 0, log = 0;
  uint64_t log_mapped = 0;
};

uint64_t& cause_of(Causes& causes, const Mapping& mapping, const Mapping& before) {
  if (mapping.name == log_path()) return causes.log;
  switch (smaps::kind_of(mapping, before)) {
    case ResidentKind::kFiles:
      return causes.files;
    case ResidentKind::kShared:
      return causes.shared;
    case ResidentKind::kDriver:
      return causes.driver;
    case ResidentKind::kStacks:
      return causes.stacks;
    case ResidentKind::kMalloc:
    case ResidentKind::kAnonymous:
      break;
  }
  return causes.anonymous;
}

/// Calls `visit(line)` for each line of a file, cut to what fits.
template <typename Visit>
bool for_each_line(const char* path, Visit visit) {
  const SignalsHeld held;  // a jump would leave the descriptor open
  const long fd = sys::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  if (sys::failed(fd)) return false;
  char buffer[4096];
  size_t bytes = 0;
  bool cut = false;  // the rest of a line that did not fit comes
  for (;;) {
    const long got = sys::read(static_cast<int>(fd), buffer + bytes, sizeof buffer - 1 - bytes);
    if (got <= 0) break;
    bytes += static_cast<size_t>(got);
    buffer[bytes] = 0;
    char* line = buffer;
    for (char* end; (end = strchr(line, '\n')) != nullptr; line = end + 1) {
      *end = 0;
      if (!cut) visit(line);
      cut = false;
    }
    bytes -= static_cast<size_t>(line - buffer);
    if (bytes == sizeof buffer - 1) {
      if (!cut) visit(line);
      cut = true;
      bytes = 0;
    }
    for (size_t i = 0; i < bytes; ++i) buffer[i] = line[i];
    asm volatile("" ::: "memory");  // else the compiler makes a call of memmove of it
  }
  sys::close(static_cast<int>(fd));
  return true;
}

bool read_causes(Causes& causes) {
  Mapping mapping, before;
  char name[64] = {};  // of `mapping`: the line is gone when its figures come
  return for_each_line("/proc/self/smaps", [&](const char* line) {
    Mapping next;
    if (smaps::parse_mapping(line, next)) {
      before = mapping;
      before.name = before.name.empty() ? std::string_view() : std::string_view("other");
      mapping = next;
      const bool is_log = next.name == log_path();
      mapping.name = is_log ? log_path() : head(next.name, sizeof name - 1);
      if (!is_log) {
        memcpy(name, mapping.name.data(), mapping.name.size());
        mapping.name = {name, mapping.name.size()};
      }
      if (is_log) causes.log_mapped += next.end - next.begin;
    } else if (smaps::starts_with(line, "Rss:")) {
      cause_of(causes, mapping, before) += number_at(line + 4) << 10;
    }
  });
}

/// What glibc's malloc has free, value + 1; 0: it does not say, or cannot be asked now.
uint64_t free_in_malloc() {
  struct Info {  // mallinfo2
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
  };
  using Ask = Info (*)();
  // A handler may have interrupted malloc, which holds its lock.
  if (t_flags.in_allocator != 0) return 0;
  static constinit std::atomic<void*> known{nullptr};
  void* ask = known.load(std::memory_order_relaxed);
  if (ask == nullptr) {
    ask = find_in("libc.so.6", "mallinfo2");  // since glibc 2.33
    if (ask == nullptr) return 0;
    known.store(ask, std::memory_order_relaxed);
  }
  return reinterpret_cast<Ask>(ask)().fordblks + 1;
}

}  // namespace

void note_resident_memory(uint64_t resident_bytes) {
  constexpr uint64_t kWorth = 4 << 20, kPart = 64;
  uint64_t highest = g_highest.load(std::memory_order_relaxed);
  if (resident_bytes < highest + highest / 16 + kWorth) return;
  const uint64_t now = monotonic_ns();
  if (now - g_last_ns.load(std::memory_order_relaxed) <
          g_cost_ns.load(std::memory_order_relaxed) * kPart ||
      is_short_of_stack() ||
      !g_highest.compare_exchange_strong(highest, resident_bytes, std::memory_order_relaxed)) {
    return;
  }
  flush_own_slot();
  Causes causes;
  if (!read_causes(causes)) return;
  const uint64_t self = self_bytes();
  const uint64_t own = self > causes.log_mapped ? self - causes.log_mapped : 0;
  const gpupeak_counters_page& page = counters();
  const auto heap = static_cast<int64_t>(page.heap.live);
  // What malloc has free, and its word before each block.
  uint64_t kept = free_in_malloc();
  if (kept > 0 && page.heap_alloc_count > page.heap_free_count)
    kept += (page.heap_alloc_count - page.heap_free_count) * sizeof(size_t);
  Record record(GPUPEAK_REC_RESIDENT);
  record.u(resident_bytes).u(causes.files).u(causes.shared).u(causes.driver).u(causes.stacks);
  record.u(causes.anonymous).u(causes.log).u(own).u(kept);
  emit(record.u(heap > 0 ? static_cast<uint64_t>(heap) : 0));
  const uint64_t end = monotonic_ns();
  g_last_ns.store(end, std::memory_order_relaxed);
  g_cost_ns.store(end - now, std::memory_order_relaxed);
}

uint64_t proportional_bytes() {
  uint64_t bytes = 0;
  for_each_line("/proc/self/smaps_rollup", [&](const char* line) {
    if (smaps::starts_with(line, "Pss:")) bytes = number_at(line + 4) << 10;
  });
  return bytes;
}

void forget_resident_memory() {
  g_highest.store(0, std::memory_order_relaxed);
  g_last_ns.store(0, std::memory_order_relaxed);
}

}  // namespace gpupeak::preload
