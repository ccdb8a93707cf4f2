#include "thread/heap_windows.h"

#include <atomic>
#include <cerrno>

#include "base/clock.h"
#include "base/hook_scope.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "log/log.h"
#include "thread/emit.h"
#include "thread/heap_sample.h"

namespace gpupeak::preload {
namespace {

/// Ids of the windows' ranges begin here, so that no other range has the same id.
constexpr uint64_t kFirstRange = uint64_t{1} << 63;
/// How often the sums are read again if a thread was in flush_slot(). answer_in_scope() tries once
/// in each call of any thread.
constexpr uint32_t kMostTries = 1000;
enum : uint64_t { kBegun = 0, kEnded = 1 };

constinit std::atomic<uint32_t> g_tries{0};

void write_event(const ProcessPage& process, uint64_t event, uint64_t mode,
                 const HeapTotals& totals) {
  Record record(GPUPEAK_REC_WINDOW);
  record.u(event).u(process.windows).u(mode);
  record.u(static_cast<uint64_t>(totals.live_bytes > 0 ? totals.live_bytes : 0));
  record.u(static_cast<uint64_t>(totals.logged_bytes > 0 ? totals.logged_bytes : 0));
  record.u(totals.freed_unlogged).u(totals.frees_unlogged);
  emit(record.u(static_cast<uint64_t>(totals.live_bytes < 0 ? -totals.live_bytes : 0)));
}

gpupeak_window_answer begin(ProcessPage& process, uint32_t mode, const HeapTotals& totals) {
  if (process.window != 0) return GPUPEAK_WINDOW_OPEN_ALREADY;
  if (log_rests()) return GPUPEAK_WINDOW_NO_LOG;
  if (marked_in(process) == Marked::kNothing && !begin_marks()) return GPUPEAK_WINDOW_NO_MEMORY;
  set_marked(process, Marked::kLogged);
  ++process.windows;
  write_event(process, kBegun, mode, totals);
  Record range(GPUPEAK_REC_RANGE_BEGIN);
  emit(range.u(kFirstRange + process.windows)
           .u(GPUPEAK_PHASE_AUTO)
           .u(intern_string("recording"))
           .u(0)
           .u(0));
  gpupeak_counters_page& page = counters();
  page.window_count = process.windows;
  page.window_is_open = 1;
  begin_window_record(process, mode);
  return GPUPEAK_WINDOW_BEGUN;
}

gpupeak_window_answer end(ProcessPage& process, const HeapTotals& totals) {
  if (process.window == 0) return GPUPEAK_WINDOW_NOT_OPEN;
  end_window_record(process);
  Record range(GPUPEAK_REC_RANGE_END);
  emit(range.u(kFirstRange + process.windows));
  write_event(process, kEnded, 0, totals);
  counters().window_is_open = 0;
  return GPUPEAK_WINDOW_ENDED;
}

gpupeak_window_answer answer(ProcessPage& process, uint64_t request, const HeapTotals& totals) {
  switch (const auto mode = static_cast<uint32_t>(request & 0xff)) {
    case GPUPEAK_HOST_SAMPLED:
    case GPUPEAK_HOST_FULL:
    case GPUPEAK_HOST_AUTO:
      return begin(process, mode, totals);
    case GPUPEAK_HOST_COUNTERS:
      return end(process, totals);
    default:
      return GPUPEAK_WINDOW_UNKNOWN;
  }
}

/// Waits until no other thread begins or ends a window.
void take_turn(ProcessPage& process) {
  constexpr timespec kPause{0, 1'000'000};
  while (__atomic_exchange_n(&process.answering, 1, __ATOMIC_ACQUIRE) != 0) sys::nanosleep(&kPause);
}

/// What the threads have counted; exact, unless at each of kMostTries a thread was in flush_slot().
HeapTotals totals_now() {
  HeapTotals totals;
  for (uint32_t i = 0; i < kMostTries; ++i) {
    totals = {};
    if (sum_heap_totals(totals)) break;
  }
  return totals;
}

}  // namespace

void begin_listening(ProcessPage& process) {
  process.window = process.answering = 0;
  process.windows = process.answered_request = 0;
  process.window_request = nullptr;
  if (process.host_mode != HostMode::kCounters) return;
  process.window_request = &counters().window_request;
  counters().window_listens = 1;
}

void begin_window(ProcessPage& process, uint32_t mode, size_t pending_bytes) {
  if (process.window_request == nullptr || mode <= GPUPEAK_HOST_COUNTERS) return;
  HeapTotals totals;
  sum_heap_totals(totals);
  totals.live_bytes -= static_cast<int64_t>(pending_bytes);
  begin(process, mode, totals);
}

bool open_window(ProcessPage& process, uint32_t mode) {
  take_turn(process);
  const gpupeak_window_answer said = begin(process, mode, totals_now());
  __atomic_store_n(&process.answering, 0, __ATOMIC_RELEASE);
  return said == GPUPEAK_WINDOW_BEGUN;
}

void close_window(ProcessPage& process) {
  take_turn(process);
  end(process, totals_now());
  __atomic_store_n(&process.answering, 0, __ATOMIC_RELEASE);
}

void answer_in_scope(ProcessPage& process) {
  if (!recording() || __atomic_load_n(&process.answering, __ATOMIC_RELAXED) != 0) return;
  const uint64_t* const word = process.window_request;
  if (word == nullptr) return;
  const SignalsHeld held;  // else a jump out of here might leave `answering` set
  if (__atomic_exchange_n(&process.answering, 1, __ATOMIC_ACQUIRE) != 0) return;
  const uint64_t request = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  HeapTotals totals;
  if (request != process.answered_request &&
      (sum_heap_totals(totals) || g_tries.fetch_add(1) >= kMostTries)) {
    g_tries = 0;
    const gpupeak_window_answer said = answer(process, request, totals);
    gpupeak_counters_page& page = counters();
    __atomic_store_n(&page.window_answer_ns, monotonic_ns(), __ATOMIC_RELAXED);
    __atomic_store_n(&page.window_answer, (request & ~uint64_t{0xff}) | said, __ATOMIC_RELEASE);
    __atomic_store_n(&process.answered_request, request, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&process.answering, 0, __ATOMIC_RELEASE);
}

void answer_request() {
  const int saved_errno = errno;
  {
    HookScope scope;
    if (scope.entered()) look_at_request(*g_process);
  }
  errno = saved_errno;
}

void enter_window(ProcessPage& process, ThreadSlot& slot) {
  const uint32_t window = __atomic_load_n(&process.window, __ATOMIC_ACQUIRE);
  if (slot.window == window) return;
  slot.window = window;
  slot.bytes_to_sample = 0;  // so that the next block is decided anew
  if (window != 0) begin_stream_of_window(slot);
}

}  // namespace gpupeak::preload
