#include "thread/sample.h"

#include <atomic>
#include <cstdint>

#include "base/arch.h"
#include "base/clock.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "log/log.h"
#include "log/log_file.h"
#include "thread/emit.h"
#include "thread/resident.h"

namespace gpupeak::preload {
namespace {

/// The next decimal number in [at, end). `at` moves behind the number.
uint64_t next_number(const char*& at, const char* end) {
  while (at < end && (*at < '0' || *at > '9')) ++at;
  uint64_t value = 0;
  for (; at < end && *at >= '0' && *at <= '9'; ++at)
    value = value * 10 + static_cast<uint64_t>(*at - '0');
  return value;
}

constinit std::atomic<uint64_t> g_last_sample_ns{0};
constinit std::atomic<uint64_t> g_sample_cost_ns{0};  ///< what the last sample took

constinit bool g_shares_pages = false;

/// `own_plus_1`: value + 1; 0: not read.
void log_sample(uint64_t resident, uint64_t resident_file, uint64_t own_plus_1) {
  const uintptr_t top = sys::brk(0);
  const uint64_t share = g_shares_pages && !is_short_of_stack() ? proportional_bytes() : 0;
  std::atomic_ref<uint64_t>(counters().self_bytes).store(self_bytes(), std::memory_order_relaxed);
  Record record(GPUPEAK_REC_SAMPLE);
  record.u(resident).u(resident_file);
  record.u(top > g_process->initial_brk ? top - g_process->initial_brk : 0);
  emit(record.u(share != 0 ? share + 1 : 0).u(own_plus_1));
}

}  // namespace

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
  const size_t bytes = read_file("/proc/self/statm", text, sizeof text);
  if (bytes == 0) return;
  const char* at = text;
  const char* end = text + bytes;
  next_number(at, end);  // total size
  const uint64_t resident = next_number(at, end) * arch::page_bytes();
  const uint64_t resident_file = next_number(at, end) * arch::page_bytes();
  log_sample(resident, resident_file, 0);
  g_sample_cost_ns.store(monotonic_ns() - now, std::memory_order_relaxed);
  note_resident_memory(resident);
}

void sample_at_end() {
  const ResidentStatus status = resident_status();
  counters().rss_peak_bytes = highest_resident(status.peak);
  if (status.resident == 0) return;
  const uint64_t all = status.resident + status.huge_pages;
  const uint64_t beside = status.files + self_bytes() - mapped_log_bytes();
  log_sample(status.resident, status.files + status.shared,
             !status.knows_its_pages ? 0
             : all > beside          ? all - beside + 1
                                     : 1);
  note_resident_memory(status.resident, true);
}

}  // namespace gpupeak::preload
