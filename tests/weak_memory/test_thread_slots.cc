// Threads write records, of which only some have a time stamp, count their heap, and end, while
// others add the counts up and take ended threads' slots over.
#include <regex>

#include "catch.h"
#include "explorer.h"
#include "log/log.cc"
#include "stack/trace_tree.cc"
#include "stand_ins.h"
#include "thread/thread_slot.cc"
#include "track/heap.h"

namespace gpupeak::preload {
namespace {

ProcessPage g_page;
ThreadSlot* g_known[3];
/// What a thread tells another one: the time of its last record.
std::atomic<uint64_t> g_told[3];
constexpr int64_t kKiB = 1024;
uint8_t g_chunks[32][4096];
size_t g_chunk_count;

int stand_still(clockid_t, timespec* now) {
  *now = {};
  return 0;
}

void begin() {
  begin_process(g_page);
  weak::ignore(&g_counters, sizeof g_counters);
  g_page.generation = 1;
  forget_counters();
  g_chunk_count = 0;
  g_use_tsc = true;
  g_coarse_clock = stand_still;
  abandon_slots();
  allow_only_writer(false);
  for (int i = 0; i < 3; ++i) {
    g_told[i] = 0;
    g_known[i] = nullptr;
  }
}
/// With a slot, and a chunk in it, for each of the first `count` threads.
template <int kCount>
void begin_with() {
  begin();
  for (int i = 0; i < kCount; ++i) g_known[i] = add_slot(i + 1);
  for (int i = kCount; i > 0; --i) g_known[i - 1]->refill(GPUPEAK_MAX_HOT_RECORD);
  allow_only_writer(true);
}
/// The first thread is the only writer.
template <int kCount>
void begin_claimed() {
  begin_with<kCount>();
  g_known[0]->refill(GPUPEAK_MAX_HOT_RECORD);
  weak::require(g_page.only_writer == 1, "it is not the only writer");
  for (int i = 0; i < 2; ++i) put_address(g_page, *g_known[0], GPUPEAK_REC_FREE, &g_page, ticks);
}

ThreadSlot& own_slot() {
  const int own = weak::thread();
  if (t_flags.slot == nullptr && g_known[own - 1] != nullptr) {
    t_flags.slot = g_known[own - 1];
    t_flags.process_generation = 1;
  }
  return *thread_slot();
}
void put() {
  const OutermostScope scope;
  ThreadSlot& slot = own_slot();
  if (slot.ready()) put_address(g_page, slot, GPUPEAK_REC_FREE, &slot, ticks);
}
void look() {
  const OutermostScope scope;
  own_slot().refill(GPUPEAK_MAX_HOT_RECORD);
}
/// The program tells by no more than a word, as with a lock of its own in assembly.
void tell() {
  g_told[weak::thread() - 1].store(own_slot().time, std::memory_order_relaxed);
}
void put_after(int other) {
  const uint64_t when = g_told[other - 1].load(std::memory_order_relaxed);
  put();
  weak::require(own_slot().time >= when, "a record is earlier than what it depends on");
}

}  // namespace

// What slots use of the log's file and of the process's samples.

Chunk __attribute__((no_sanitize("thread")))
new_chunk(size_t, gpupeak_chunk_kind, uint32_t, uint64_t, uint32_t) {
  uint8_t* const at = g_chunks[g_chunk_count++ % std::size(g_chunks)];
  memset(at, 0, 256);
  weak::mapped(at, sizeof g_chunks[0]);
  reinterpret_cast<gpupeak_chunk_header*>(at)->start_ticks = weak::clock();
  return {at, sizeof g_chunks[0]};
}
size_t fitting_chunk_bytes(size_t wanted) {
  return wanted;
}
void retire_chunk(const Chunk&) {}
bool log_is_short() {
  return false;
}
bool log_rests() {
  return false;
}
bool is_short_of_stack() {
  return false;
}
uint64_t ticks_without_tsc() {
  return 0;
}
void note_large_block(int64_t) {}
void sample(Moment, size_t) {}
/// Takes a while.
void sample_before_less(size_t) {
  for (int i = 0; i < 4; ++i) g_told[2].load();
}

}  // namespace gpupeak::preload

TEST_CASE("slots' records are in order, sums of their heaps of a time, and taken over whole",
          "[weak]") {
  using namespace gpupeak::preload;
  // Records are in their order, though the only writer's have no stamps of their own.
  const auto hears = [] { put_after(2), put_after(2); };
  const auto claims = [] { look(), put(), put_after(2); };
  const auto tells = [] { put(), tell(); };
  const auto claims_and_tells = [] { look(), put(), put(), tell(); };
  const auto hears_first = [] { put_after(1); };
  const auto stops = [] { stamp_every_event(); };
  const auto none = [] { weak::require(g_page.only_writer == 0, "there is an only writer"); };
  const auto reads = [] {  // of another process, which has the log's pages, too
    uint8_t* const first = g_chunks[0] + sizeof(gpupeak_chunk_header);
    if (std::atomic_ref<uint8_t>(*first).load(std::memory_order_acquire) != 0)
      weak::require(first[1] != 0, "a record is not whole");
  };
  // A sum is not of counts half handed on, and of no time before what its thread knows.
  const auto counts = [] {
    for (const int64_t kib : {60, 60}) add_to_counters(own_slot(), kib * kKiB);
  };
  const auto frees_much = [] {
    for (const int64_t kib : {100, 50}) add_to_counters(own_slot(), kib * kKiB);
    g_told[0].store(1, std::memory_order_release);
    add_to_counters(own_slot(), -80 * 1024 * kKiB);
  };
  const auto sums = [] {
    const bool knows = g_told[0].load(std::memory_order_acquire) != 0;
    HeapTotals totals;
    if (!sum_heap_totals(totals)) return;
    const int64_t kib = totals.live_bytes / kKiB;
    const bool is_old = kib == 0 || kib == 60 || kib == 100 || kib == 120;
    weak::require((is_old && !knows) || kib == 150 || kib == 150 - 80 * 1024,
                  "the sum is of no time");
  };
  const auto begin_recording = [] {
    begin_with<1>();
    g_page.recording = 1;
  };
  // Threads end, and others take their slots over; all slots are emptied before another log of the
  // same process, while nobody is in a hook.
  const auto writes = [] { put(), put(); };
  const auto empties = [] {
    empty_slots();
    g_told[0].store(1, std::memory_order_relaxed);
  };
  const auto begins = [] {
    if (g_told[0].load(std::memory_order_relaxed) != 0) put();
  };
  const auto begin_with_left_slot = [] {
    begin_with<1>();
    g_known[0] = nullptr;
  };
  const std::string unneeded =
      weak::needs_each_order({{{hears, tells}, begin_claimed<2>},
                              {{hears, tells}, begin_claimed<1>},
                              {{claims, tells}, begin_with<2>},
                              {{claims, tells}, begin_with<1>},
                              {{claims, claims_and_tells}, begin_with<2>},
                              {{claims_and_tells, hears_first}, begin_with<2>},
                              {{claims_and_tells, stops}, begin_with<1>, none},
                              {{tells, reads}, begin_with<1>},
                              {{counts, sums}, begin_with<1>},
                              {{counts, sums}, begin},
                              {{frees_much, sums}, begin_recording},
                              {{writes, writes, writes}, begin},
                              {{writes, writes, writes, writes}, begin},
                              {{empties, begins}, begin_with_left_slot}},
                             4000, {"thread_slot.h", "thread_slot.cc", "emit.h", "arch.h"});
  // Kept: the two loads of only_writer, and that of the list in empty_slots().
  CHECK(std::regex_replace(unneeded, std::regex(":[0-9]+"), "") ==
        "thread_slot.cc acquire, not relaxed\n"
        "thread_slot.h acquire, not relaxed\nthread_slot.h acquire, not relaxed\n");
}
