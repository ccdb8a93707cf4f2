#include "thread/sampled_set.h"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstring>

#include "base/environment.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kSlots = 1 << 20;
constexpr uint32_t kWindow = 16;  // a block lies within 16 slots (two cache lines) of its hash

constinit std::atomic<uint64_t>* g_slots = nullptr;
/// How many blocks of the set lie in each page, in an array that repeats itself all 256 MiB of
/// addresses. Nearly every free asks in vain; the slots are in no cache, the counts of the pages
/// that a program uses at a time are.
constinit std::atomic<uint32_t>* g_in_page = nullptr;
constexpr uint32_t kPages = 1 << 16;
constinit double g_mean_bytes = 0;

/// A bit for each 8 bytes of all addresses that a program can have, in leaves of 64 MiB of them:
/// also under `ulimit -v` there are addresses for those that are used.
constexpr uint64_t kAddresses = uint64_t{1} << 47;
constexpr uint64_t kLeafAddresses = 64 << 20;
constexpr uint64_t kLeafBytes = kLeafAddresses / 8 / 8;
constexpr uint64_t kLeaves = kAddresses / kLeafAddresses;
using Marks = std::atomic<uint8_t>*;
constinit std::atomic<Marks>* g_unlogged = nullptr;

bool reserve_marks() {
  if (g_unlogged == nullptr) {
    g_unlogged = static_cast<std::atomic<Marks>*>(reserve_pages(kLeaves * sizeof(Marks)));
    return g_unlogged != nullptr;
  }
  for (uint64_t i = 0; i < kLeaves; ++i) {  // in a forked child: the parent's
    if (Marks leaf = g_unlogged[i].load(std::memory_order_relaxed))
      sys::madvise(leaf, kLeafBytes, MADV_DONTNEED);
  }
  return true;
}

/// nullptr if nothing there is marked and, with `make`, there are no more addresses to mark it.
Marks marks_of(uint64_t address, bool make) {
  std::atomic<Marks>& place = g_unlogged[(address & (kAddresses - 1)) / kLeafAddresses];
  Marks leaf = place.load(std::memory_order_acquire);
  if (leaf == nullptr && make) {
    Marks made = static_cast<Marks>(reserve_pages(kLeafBytes));
    if (made == nullptr) return nullptr;
    sys::madvise(made, kLeafBytes, MADV_DONTDUMP);
    if (place.compare_exchange_strong(leaf, made, std::memory_order_acq_rel)) {
      leaf = made;
    } else {
      sys::munmap(made, kLeafBytes);  // another thread was faster
    }
  }
  return leaf == nullptr ? nullptr : leaf + (address & (kLeafAddresses - 1)) / 64;
}
uint8_t mark_of(uint64_t address) {
  return static_cast<uint8_t>(1u << (address >> 3 & 7));
}

/// The slots where a block may lie.
std::atomic<uint64_t>* window(const void* block) {
  const uint64_t mixed = reinterpret_cast<uint64_t>(block) * 0x9e3779b97f4a7c15u;
  return g_slots + (mixed >> 44) / kWindow * kWindow;
}

std::atomic<uint32_t>& count_of_page(const void* block) {
  return g_in_page[(reinterpret_cast<uint64_t>(block) >> 12) % kPages];
}

/// ln(x) for x in (0, 1], to about 1e-5: this library has no libm.
double natural_log(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
  double m;
  memcpy(&m, &bits, sizeof m);  // 1 <= m < 2
  const double t = (m - 1) / (m + 1);
  const double t2 = t * t;
  return exponent * 0.6931471805599453 +
         2 * t * (1 + t2 * (1.0 / 3 + t2 * (1.0 / 5 + t2 * (1.0 / 7 + t2 / 9))));
}

}  // namespace

bool init_sampling(uint64_t mean_bytes) {
  if (g_slots == nullptr) {
    g_slots = static_cast<std::atomic<uint64_t>*>(reserve_pages(kSlots * sizeof(uint64_t)));
  }
  if (g_in_page == nullptr) {
    g_in_page =
        static_cast<std::atomic<uint32_t>*>(reserve_pages(kPages * sizeof(uint32_t)));
  }
  g_mean_bytes = static_cast<double>(mean_bytes);
  return g_slots != nullptr && g_in_page != nullptr;
}

int64_t exponential_gap(uint64_t random) {
  const double uniform = (static_cast<double>(random >> 11) + 1) / 9007199254740992.0;  // (0, 1]
  return static_cast<int64_t>(-natural_log(uniform) * g_mean_bytes);
}

bool sampled_set_insert(const void* block) {
  std::atomic<uint64_t>* slots = window(block);
  for (uint32_t i = 0; i < kWindow; ++i) {
    uint64_t empty = 0;
    if (slots[i].compare_exchange_strong(empty, reinterpret_cast<uint64_t>(block),
                                         std::memory_order_relaxed)) {
      count_of_page(block).fetch_add(1, std::memory_order_relaxed);
      return true;
    }
  }
  count(&gpupeak_counters_page::dropped_events);
  return false;
}

bool sampled_set_may_have(const void* block) {
  return count_of_page(block).load(std::memory_order_relaxed) != 0;
}

bool sampled_set_erase(const void* block) {
  if (!sampled_set_may_have(block)) return false;
  std::atomic<uint64_t>* slots = window(block);
  for (uint32_t i = 0; i < kWindow; ++i) {
    uint64_t mine = reinterpret_cast<uint64_t>(block);
    if (slots[i].load(std::memory_order_relaxed) == mine &&
        slots[i].compare_exchange_strong(mine, 0, std::memory_order_relaxed)) {
      count_of_page(block).fetch_sub(1, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

void keep_to_log_limit() {
  const uint64_t limit = environment().log_max_bytes;
  ProcessPage& page = *g_process;
  if (page.host_mode != HostMode::kFull || counters().file_bytes < limit) return;
  if (std::atomic_ref<uint32_t>(page.sampled_late).exchange(1) != 0)
    return;  // another thread does it
  if (!init_sampling(environment().sample_bytes) || !reserve_marks()) return;
  set_quality(GPUPEAK_Q_LOG_MAX);
  std::atomic_ref<HostMode>(page.host_mode).store(HostMode::kSampled, std::memory_order_release);
  std::atomic_ref<uint64_t>(page.whole_heap_generation).store(0, std::memory_order_release);
}

void note_unlogged(const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  if (Marks marks = marks_of(address, true)) {
    marks->fetch_or(mark_of(address), std::memory_order_relaxed);
  } else {
    count(&gpupeak_counters_page::dropped_events);
  }
}

bool forget_unlogged(const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  const uint8_t mark = mark_of(address);
  const Marks marks = marks_of(address, false);
  if (marks == nullptr || (marks->load(std::memory_order_relaxed) & mark) == 0) return false;
  marks->fetch_and(static_cast<uint8_t>(~mark), std::memory_order_relaxed);
  return true;
}

}  // namespace gpupeak::preload
