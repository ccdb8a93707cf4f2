#include "thread/heap_sample.h"

#include <sys/mman.h>

#include <bit>

#include "base/clock.h"
#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/kept_errno.h"
#include "base/memory.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "log/log.h"
#include "thread/emit.h"

namespace gpupeak::preload {

constinit std::atomic<std::atomic<MarkLeaf>*> g_mark_leaves{nullptr};

namespace {

constexpr uint64_t kLeafBytes = kLeafAddresses / 8 / 8;
constexpr uint64_t kLeaves = kMarkedAddresses / kLeafAddresses;

/// The byte of `address`. Its leaf is made if `make`. nullptr: there is no leaf, or no memory for
/// one.
std::atomic<uint8_t>* byte_of(uint64_t address, bool make) {
  // Who knows that there are marks (marked_in()) knows their table.
  std::atomic<MarkLeaf>* const leaves = g_mark_leaves.load(std::memory_order_relaxed);
  std::atomic<MarkLeaf>& place = leaves[(address & (kMarkedAddresses - 1)) / kLeafAddresses];
  MarkLeaf leaf = place.load(std::memory_order_acquire);
  if (leaf == nullptr && make) {
    auto* made = static_cast<MarkLeaf>(reserve_pages(kLeafBytes));
    if (made == nullptr) return nullptr;
    sys::madvise(made, kLeafBytes, MADV_DONTDUMP);
    if (place.compare_exchange_strong(leaf, made, std::memory_order_acq_rel)) {
      leaf = made;
    } else {
      unmap_pages(made, kLeafBytes);  // another thread was faster
    }
  }
  return leaf == nullptr ? nullptr : leaf + (address & (kLeafAddresses - 1)) / 64;
}
uint8_t bit_of(uint64_t address) {
  return static_cast<uint8_t>(1u << (address >> 3 & 7));
}

constexpr uint64_t kSampleBytes = 512 << 10;     // unless GPUPEAK_SAMPLE says other
constexpr uint64_t kAutoSampleBytes = 64 << 10;  // the same with GPUPEAK_HOST=auto
/// After so many blocks a sample of `auto` gets half as dense, and again when they have doubled:
/// what it adds to a log grows with the root of the bytes that the program has allocated.
constexpr uint64_t kFirstBlocks = 1 << 16;

// What it costs to log everything, as measured (docs/performance.md): by the log's bytes, and by
// the stacks that had not been seen before, and small blocks with Python lines.
constexpr uint64_t kNsPerByte = 6, kNsPerNode = 500, kNsPerLines = 150;
/// It may cost so much, and of the time since the log's start one part in so many; and so much more
/// before a sample that costs too much gets thinner.
constexpr uint64_t kAllowedNs = 10'000'000, kAllowedPart = 100, kThinnerNs = 5'000'000;
constexpr uint64_t kAllowedBytes = 8 << 20;
/// One part in so many of what is allowed may be spent before blocks of libraries that start are a
/// sample, and those of the driver, which makes ten thousands.
constexpr uint64_t kLibrariesPart = 10, kDriversPart = 50;

/// An estimate's error is about the root of what the mean is of the peak: a quarter at most,
/// however large the log gets. Readers and next_gap() take a mean of this size.
constexpr uint64_t kMostPart = 16, kMostSampleBytes = uint64_t{1} << 40;

/// ln(x) for x in (0, 1], to about 1e-5: this library has no libm.
double natural_log(double x) {
  auto bits = std::bit_cast<uint64_t>(x);
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
  const auto m = std::bit_cast<double>(bits);  // 1 <= m < 2
  const double t = (m - 1) / (m + 1);
  const double t2 = t * t;
  return exponent * 0.6931471805599453 +
         2 * t * (1 + t2 * (1.0 / 3 + t2 * (1.0 / 5 + t2 * (1.0 / 7 + t2 / 9))));
}

/// Exponentially distributed: every byte is equally likely to be hit.
int64_t next_gap(ThreadSlot& slot) {
  slot.random ^= slot.random << 13;
  slot.random ^= slot.random >> 7;
  slot.random ^= slot.random << 17;
  const double uniform =
      (static_cast<double>(slot.random >> 11) + 1) / 9007199254740992.0;  // (0, 1]
  return 1 + static_cast<int64_t>(-natural_log(uniform) * static_cast<double>(slot.sample_bytes));
}

uint64_t mean_of(const ProcessPage& process) {
  return __atomic_load_n(&process.sample_bytes, __ATOMIC_RELAXED);
}

/// Writes SAMPLING: from here on the thread's blocks are a sample that has all blocks of `whole`
/// bytes and more. If there is no room now, it is written before the next block.
void say_sample(ThreadSlot& slot, uint64_t whole) {
  if (slot.whole_bytes == whole) return;
  if (slot.write_to_heap(Record{GPUPEAK_REC_SAMPLING, slot.sample_bytes, whole}))
    slot.whole_bytes = whole;
}

/// The thread's next blocks are a sample with the process's mean. A gap has no memory, so that one
/// which begins anew makes no block likelier than another.
void begin_sample(ProcessPage& process, ThreadSlot& slot) {
  if (slot.random == 0) slot.random = (slot.index + 1) * 0x9e3779b97f4a7c15u ^ ticks();
  slot.sample_bytes = mean_of(process);
  slot.bytes_to_sample = next_gap(slot);
  slot.whole_bytes = 0;
  say_sample(slot, whole_bytes(slot.sample_bytes));
}

uint64_t written_by(const ProcessPage& process) {
  return __atomic_load_n(&process.written_bytes, __ATOMIC_RELAXED);
}

/// What recording has cost so far.
uint64_t spent_ns(const ProcessPage& process) {
  const uint64_t nodes = defined_nodes() - process.first_nodes;
  const uint64_t lined = __atomic_load_n(&process.lined_blocks, __ATOMIC_RELAXED);
  return written_by(process) * kNsPerByte + nodes * kNsPerNode + lined * kNsPerLines;
}

bool is_over_budget(const ProcessPage& process) {
  const uint64_t limit = environment().log_max_bytes / 2;
  if (written_by(process) > (limit < kAllowedBytes ? limit : kAllowedBytes)) return true;
  return spent_ns(process) > kAllowedNs + (monotonic_ns() - process.heap_start_ns) / kAllowedPart;
}

/// Where nearly each block has a stack of its own, as while Python imports, a sample costs as much
/// as all the rest: it gets thinner, three times at most.
bool sample_costs_too_much(const ProcessPage& process) {
  const uint64_t mean = mean_of(process);
  if (process.is_auto == 0 || environment().sample_bytes != 0 || mean >= kSampleBytes) return false;
  uint64_t allowed = (monotonic_ns() - process.sample_start_ns) / kAllowedPart;
  for (uint64_t at = kAutoSampleBytes; at <= mean; at *= 2) allowed += kThinnerNs;
  return spent_ns(process) > process.sample_start_spent_ns + allowed;
}

/// False: the mode was not `from`.
bool change_mode(ProcessPage& process, HostMode from, HostMode to) {
  return __atomic_compare_exchange(&process.host_mode, &from, &to, false, __ATOMIC_RELEASE,
                                   __ATOMIC_RELAXED);
}

void go_over_to_sample(ProcessPage& process, uint64_t quality) {
  if (__atomic_exchange_n(&process.goes_over, 1, __ATOMIC_RELAXED) != 0)
    return;  // another thread does it
  if (marked_in(process) == Marked::kNothing) {
    if (!begin_marks()) return;
    set_marked(process, Marked::kUnlogged);
  }
  process.sample_start_ns = monotonic_ns();
  process.sample_start_spent_ns = spent_ns(process);
  set_quality(quality);
  // A window may have ended meanwhile.
  for (const HostMode mode : {HostMode::kFull, HostMode::kOthersSampled})
    change_mode(process, mode, HostMode::kSampled);
  __atomic_store_n(&process.whole_heap_generation, 0, __ATOMIC_RELAXED);
  if (marked_in(process) == Marked::kLogged)
    __atomic_store_n(&process.counted_heap_generation, process.generation, __ATOMIC_RELEASE);
}

void begin_budget(ProcessPage& process, uint32_t mode) {
  const bool is_auto = mode == GPUPEAK_HOST_AUTO;
  process.heap_start_ns = monotonic_ns();
  process.first_nodes = defined_nodes();  // a forked child's are its parent's, defined again
  process.goes_over = 0;
  process.is_auto = is_auto;
  process.written_bytes = process.sampled_blocks = process.lined_blocks = 0;
  process.thinner_at = is_auto ? kFirstBlocks : UINT64_MAX;
  process.sample_bytes = sample_bytes_asked_for(mode);
}

void make_thinner(ProcessPage& process) {
  const uint64_t mean = mean_of(process);
  const uint64_t peak = __atomic_load_n(&counters().heap.peak, __ATOMIC_RELAXED);
  const uint64_t most = peak / kMostPart > kSampleBytes ? peak / kMostPart : kSampleBytes;
  if (2 * mean <= most) __atomic_store_n(&process.sample_bytes, 2 * mean, __ATOMIC_RELAXED);
}

}  // namespace

bool begin_marks() {
  std::atomic<MarkLeaf>* leaves = g_mark_leaves.load(std::memory_order_relaxed);
  if (leaves == nullptr) {
    leaves = static_cast<std::atomic<MarkLeaf>*>(reserve_pages(kLeaves * sizeof(MarkLeaf)));
    g_mark_leaves.store(leaves, std::memory_order_release);
    return leaves != nullptr;
  }
  for (uint64_t i = 0; i < kLeaves; ++i) {
    if (MarkLeaf leaf = leaves[i].load(std::memory_order_relaxed))
      sys::madvise(leaf, kLeafBytes, MADV_DONTNEED);
  }
  return true;
}

GPUPEAK_HOT void mark_block(const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  if (std::atomic<uint8_t>* byte = byte_of(address, true)) {
    byte->fetch_or(bit_of(address), std::memory_order_relaxed);
  } else {
    count(&gpupeak_counters_page::dropped_events);
  }
}

GPUPEAK_HOT bool unmark_block(const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  const uint8_t bit = bit_of(address);
  std::atomic<uint8_t>* byte = byte_of(address, false);
  if (byte == nullptr || (byte->load(std::memory_order_relaxed) & bit) == 0) return false;
  byte->fetch_and(static_cast<uint8_t>(~bit), std::memory_order_relaxed);
  return true;
}

uint64_t sample_bytes_asked_for(uint32_t mode) {
  if (const uint64_t asked = environment().sample_bytes)
    return asked < kMostSampleBytes ? asked : kMostSampleBytes;
  return mode == GPUPEAK_HOST_AUTO ? kAutoSampleBytes : kSampleBytes;
}

void begin_heap_record(ProcessPage& process, bool counters_alone) {
  const uint32_t asked = counters_alone ? uint32_t{GPUPEAK_HOST_COUNTERS} : environment().host_mode;
  const bool is_auto = asked == GPUPEAK_HOST_AUTO;
  begin_budget(process, asked);
  set_marked(process, Marked::kNothing);
  HostMode mode = is_auto ? HostMode::kFull : static_cast<HostMode>(asked);
  if (is_auto || mode == HostMode::kSampled) {
    if (begin_marks())
      set_marked(process, Marked::kLogged);
    else
      mode = HostMode::kCounters;
  }
  __atomic_store(&process.host_mode, &mode, __ATOMIC_RELEASE);
  const bool counts = mode == HostMode::kSampled || mode == HostMode::kCounters;
  process.whole_heap_generation = mode == HostMode::kFull ? process.generation : 0;
  process.counted_heap_generation = counts ? process.generation : 0;
}

void keep_to_budget(ProcessPage& process, size_t written_bytes) {
  __atomic_fetch_add(&process.written_bytes, written_bytes, __ATOMIC_RELAXED);
  const bool is_full =
      std::atomic_ref<uint64_t>(counters().file_bytes).load(std::memory_order_relaxed) >=
      environment().log_max_bytes;
  const HostMode mode = host_mode_of(process);
  if (mode == HostMode::kFull || mode == HostMode::kOthersSampled) {
    if (process.is_auto != 0) {
      if (is_over_budget(process)) go_over_to_sample(process, GPUPEAK_Q_HEAP_SAMPLED);
      const bool uses_cuda = __atomic_load_n(&process.uses_cuda, __ATOMIC_RELAXED) != 0;
      if ((libraries_start() || uses_cuda) &&
          spent_ns(process) > kAllowedNs / (uses_cuda ? kDriversPart : kLibrariesPart) &&
          change_mode(process, HostMode::kFull, HostMode::kOthersSampled))
        __atomic_store_n(&process.whole_heap_generation, 0, __ATOMIC_RELAXED);
    } else if (is_full) {
      go_over_to_sample(process, GPUPEAK_Q_LOG_MAX);
    }
  } else if (is_full && process.is_auto != 0) {
    make_thinner(process);
  }
}

void say_whole(ThreadSlot& slot) {
  if (slot.sample_bytes != 0) say_sample(slot, 1);
}

bool joins_sample(ProcessPage& process, ThreadSlot& slot, size_t bytes) {
  if (slot.sample_bytes == 0) begin_sample(process, slot);
  if (bytes >= whole_bytes(slot.sample_bytes)) return true;
  if (t_flags.arena_calls != 0) {  // what an arena takes it shares out: it is known whole
    say_whole(slot);
    return true;
  }
  slot.bytes_to_sample -= static_cast<int64_t>(bytes);
  if (slot.bytes_to_sample > 0) return false;
  do slot.bytes_to_sample += next_gap(slot);
  while (slot.bytes_to_sample <= 0);
  say_sample(slot, whole_bytes(slot.sample_bytes));
  return true;
}

void sample_was_taken(ProcessPage& process, ThreadSlot& slot) {
  const uint64_t taken = __atomic_add_fetch(&process.sampled_blocks, 1, __ATOMIC_RELAXED);
  uint64_t thinner_at = __atomic_load_n(&process.thinner_at, __ATOMIC_RELAXED);
  if (taken >= thinner_at &&
      __atomic_compare_exchange_n(&process.thinner_at, &thinner_at, 2 * thinner_at, false,
                                  __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    make_thinner(process);
  }
  if (sample_costs_too_much(process)) make_thinner(process);
  if (slot.sample_bytes != mean_of(process)) begin_sample(process, slot);
}

// Windows.

namespace {

/// A window begins, in which the heap is recorded by `mode`.
void begin_window_record(ProcessPage& process, uint32_t mode) {
  begin_budget(process, mode);
  if (mode == GPUPEAK_HOST_SAMPLED) set_quality(GPUPEAK_Q_HEAP_SAMPLED);
  __atomic_store_n(&process.window, static_cast<uint32_t>(process.windows), __ATOMIC_RELEASE);
  HostMode to = mode == GPUPEAK_HOST_SAMPLED ? HostMode::kSampled : HostMode::kFull;
  __atomic_store(&process.host_mode, &to, __ATOMIC_RELEASE);
  const bool counts = to == HostMode::kSampled;
  __atomic_store_n(&process.counted_heap_generation, counts ? process.generation : 0,
                   __ATOMIC_RELEASE);
}

/// Ids of the windows' ranges begin here, so that no other range has the same id.
constexpr uint64_t kFirstRange = uint64_t{1} << 63;
/// How often the sums are read again if a thread was in flush_slot(). answer_in_scope() tries once
/// in each call of any thread.
constexpr uint32_t kMostTries = 1000;
enum : uint64_t { kBegun = 0, kEnded = 1 };

constinit std::atomic<uint32_t> g_tries{0};

void write_event(const ProcessPage& process, uint64_t event, uint64_t mode,
                 const HeapTotals& totals) {
  emit(Record{GPUPEAK_REC_WINDOW, event, process.windows, mode,
              totals.live_bytes > 0 ? totals.live_bytes : 0,
              totals.logged_bytes > 0 ? totals.logged_bytes : 0, totals.freed_unlogged,
              totals.frees_unlogged, totals.live_bytes < 0 ? -totals.live_bytes : 0});
}

gpupeak_window_answer begin_one(ProcessPage& process, uint32_t mode, const HeapTotals& totals) {
  if (process.window != 0) return GPUPEAK_WINDOW_OPEN_ALREADY;
  if (log_rests()) return GPUPEAK_WINDOW_NO_LOG;
  if (marked_in(process) == Marked::kNothing && !begin_marks()) return GPUPEAK_WINDOW_NO_MEMORY;
  set_marked(process, Marked::kLogged);
  ++process.windows;
  write_event(process, kBegun, mode, totals);
  emit(Record{GPUPEAK_REC_RANGE_BEGIN, kFirstRange + process.windows, GPUPEAK_PHASE_AUTO,
              intern_string("recording"), 0, 0});
  gpupeak_counters_page& page = counters();
  page.window_count = process.windows;
  page.window_is_open = 1;
  begin_window_record(process, mode);
  return GPUPEAK_WINDOW_BEGUN;
}

gpupeak_window_answer end_one(ProcessPage& process, const HeapTotals& totals) {
  if (process.window == 0) return GPUPEAK_WINDOW_NOT_OPEN;
  HostMode to = HostMode::kCounters;
  __atomic_store(&process.host_mode, &to, __ATOMIC_RELEASE);
  __atomic_store_n(&process.window, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&process.counted_heap_generation, process.generation, __ATOMIC_RELEASE);
  emit(Record{GPUPEAK_REC_RANGE_END, kFirstRange + process.windows});
  write_event(process, kEnded, 0, totals);
  counters().window_is_open = 0;
  return GPUPEAK_WINDOW_ENDED;
}

gpupeak_window_answer answer(ProcessPage& process, uint64_t request, const HeapTotals& totals) {
  switch (const auto mode = static_cast<uint32_t>(request & 0xff)) {
    case GPUPEAK_HOST_SAMPLED:
    case GPUPEAK_HOST_FULL:
    case GPUPEAK_HOST_AUTO:
      return begin_one(process, mode, totals);
    case GPUPEAK_HOST_COUNTERS:
      return end_one(process, totals);
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
  begin_one(process, mode, totals);
}

bool open_window(ProcessPage& process, uint32_t mode) {
  take_turn(process);
  const gpupeak_window_answer said = begin_one(process, mode, totals_now());
  __atomic_store_n(&process.answering, 0, __ATOMIC_RELEASE);
  return said == GPUPEAK_WINDOW_BEGUN;
}

void close_window(ProcessPage& process) {
  take_turn(process);
  end_one(process, totals_now());
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
  const KeptErrno program_errno;
  HookScope scope;
  if (scope.entered()) look_at_request(*g_process);
}

void enter_window(ProcessPage& process, ThreadSlot& slot) {
  const uint32_t window = __atomic_load_n(&process.window, __ATOMIC_ACQUIRE);
  if (slot.window == window) return;
  slot.window = window;
  slot.bytes_to_sample = 0;  // so that the next block is decided anew
  if (window == 0 || slot.sample_bytes == 0) return;
  // The thread's blocks are all logged from here on, until they are a sample (joins_sample()).
  slot.sample_bytes = slot.whole_bytes = 0;
  slot.write_to_heap(Record{GPUPEAK_REC_SAMPLING, 0, 0});
}

}  // namespace gpupeak::preload
