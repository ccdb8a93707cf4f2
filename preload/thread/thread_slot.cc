#include "thread/thread_slot.h"

#include <sys/prctl.h>

#include <cerrno>
#include <cstring>

#include "base/memory.h"
#include "base/proc_file.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "gpupeak/pages.h"
#include "stack/trie.h"
#include "thread/emit.h"
#include "thread/heap_sample.h"
#include "thread/resident.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kFirstChunkBytes = 4096;
constexpr size_t kLargestChunkBytes = 256 << 10;
constexpr size_t kLookBytes = 8 << 10;
/// The tid of a slot that a vfork child has made. The slot is for the parent's thread, whose memory
/// the child uses, but the child has another thread id.
constexpr int kUnknownThread = 0;
/// The tid of a slot that a thread is just taking over.
constexpr int kBeingTaken = -1;
/// The tid of a slot after empty_slots(): its thread may live, but has to take a slot anew.
constexpr int kNobody = -2;

/// Slots are added in front and never removed, so that reading the list needs no lock.
constinit std::atomic<ThreadSlot*> g_slots{nullptr};
/// Where take_free_slot() goes on; nullptr: at g_slots.
constinit std::atomic<ThreadSlot*> g_look{nullptr};
constinit std::atomic<uint32_t> g_slot_count{0};
/// Whether threads may become the only writer.
constinit std::atomic<bool> g_may_claim{false};
/// call_filters() when claims were allowed.
constinit int g_call_filters = 0;

/// Gives the slot to `tid` if the slot's thread has ended; else false.
bool take_over(ThreadSlot& slot, int tid) {
  int owner = slot.tid.load(std::memory_order_relaxed);
  // Asks with the log's process id, since a vfork child has another one.
  const auto is_free = [&] {
    return owner == tid || owner == kNobody || sys::tgkill(g_process->pid, owner, 0) == -ESRCH;
  };
  if (owner == kUnknownThread || owner == kBeingTaken || !is_free()) return false;
  if (!slot.tid.compare_exchange_strong(owner, kBeingTaken)) return false;
  const bool free = is_free();  // false: a new thread with the old thread's id was faster
  slot.tid.store(free ? tid : owner, std::memory_order_relaxed);
  return free;
}

/// A slot whose thread has ended, if one of the next few slots is such a slot; else nullptr. To
/// look at all slots would cost a new thread one system call for each thread that lives.
ThreadSlot* take_free_slot(int tid) {
  constexpr uint32_t kLooks = 8;
  const uint32_t slots = g_slot_count.load(std::memory_order_relaxed);
  ThreadSlot* slot = g_look.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < kLooks && i < slots; ++i) {
    if (slot == nullptr) slot = g_slots.load(std::memory_order_acquire);
    if (slot == nullptr) break;
    ThreadSlot& looked_at = *slot;
    slot = slot->next;
    g_look.store(slot, std::memory_order_release);  // perhaps a slot that others do not know
    if (take_over(looked_at, tid)) return &looked_at;
  }
  return nullptr;
}

ThreadSlot* add_slot(int tid) {
  void* at = reserve_pages(whole_pages(sizeof(ThreadSlot)));
  if (at == nullptr) return nullptr;
  auto* slot = new (at) ThreadSlot;
  slot->index = g_slot_count.fetch_add(1, std::memory_order_relaxed);
  slot->tid.store(tid, std::memory_order_relaxed);
  slot->next = g_slots.load(std::memory_order_relaxed);
  while (!g_slots.compare_exchange_weak(slot->next, slot, std::memory_order_release)) {
  }
  // Before the slot's first stamp: either claim_only_writer() sees the slot, or this thread sees
  // the claim.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return slot;
}

/// Whether `is` holds for one of the slots.
template <typename Is>
bool any_slot(Is is) {
  const ThreadSlot* slot = g_slots.load(std::memory_order_acquire);
  while (slot != nullptr && !is(*slot)) slot = slot->next;
  return slot != nullptr;
}

uint64_t start_ticks_of(const Chunk& chunk) {
  return reinterpret_cast<const gpupeak_chunk_header*>(chunk.begin)->start_ticks;
}

/// Writes the record from `at` on, but not its tag. Returns the place behind the record.
uint8_t* put_record(uint8_t* at, const Record& record, uint64_t dt) {
  // The length stands before dt. In most records the length takes one byte; if it takes two, dt is
  // written again, one byte further on.
  uint8_t* body = at + 2;
  uint8_t* to = put_wide_varint(body, dt);
  const size_t bytes = static_cast<size_t>(to - body) + record.bytes();
  if (__builtin_expect(bytes < 0x80, 1)) {
    at[1] = static_cast<uint8_t>(bytes);
  } else {
    body = put_varint(at + 1, bytes);
    to = put_wide_varint(body, dt);
  }
  memcpy(to, record.body(), record.bytes());
  return to + record.bytes();
}

size_t room_for(const Record& record) {
  return record.bytes() + 32;
}

}  // namespace

ThreadSlot* make_thread_slot() {
  const int tid = sys::getpid() == g_process->pid ? sys::gettid() : kUnknownThread;
  ThreadSlot* slot = take_free_slot(tid);
  if (slot != nullptr) {
    slot->stacks.begin_thread();
  } else {
    slot = add_slot(tid);
    if (slot == nullptr) return nullptr;
  }
  t_flags.slot = slot;
  t_flags.process_generation = g_process->generation;
  if (tid == kUnknownThread || !recording()) return slot;  // not recording: only counted
  char name[16] = {};
  sys::prctl(PR_GET_NAME, name);
  const Record record{GPUPEAK_REC_THREAD, tid, std::string_view(name, strnlen(name, sizeof name))};
  slot->write(record);
  if (slot->at != nullptr) slot->write_to_heap(record);  // the chunk is the earlier thread's
  return slot;
}

void allow_only_writer(bool allowed) {
  constexpr long kRegisterPrivateExpedited = 1 << 4;
  g_call_filters = call_filters();
  g_may_claim = allowed && !sys::failed(sys::membarrier(kRegisterPrivateExpedited));
}

void stamp_every_event() {
  // A claim that this does not end comes after it, and so sees that there may be none.
  g_may_claim.store(false, std::memory_order_relaxed);
  std::atomic_ref<uint32_t>(g_process->only_writer).store(0, std::memory_order_release);
}

/// Makes this thread the only writer, if no other thread has logged since `quiet_since`. Another
/// thread may be about to log. Then either that thread sees the claim and ends it, or this function
/// sees that thread's `stamping`: membarrier() is a barrier in all threads.
void ThreadSlot::claim_only_writer(uint64_t quiet_since) {
  constexpr long kPrivateExpedited = 1 << 3;
  if (!g_may_claim.load(std::memory_order_relaxed)) return;
  const auto any_other = [this](auto&& is_busy) {
    return any_slot([&](const ThreadSlot& slot) { return &slot != this && is_busy(slot); });
  };
  if (any_other([quiet_since](const ThreadSlot& other) { return other.earliest > quiet_since; })) {
    return;
  }
  std::atomic_ref<uint32_t> only_writer(g_process->only_writer);
  if (only_writer.load(std::memory_order_relaxed) != 0) return;
  const auto is_any = [](const ThreadSlot&) { return true; };
  const bool alone = !any_other(is_any);
  if (!alone && is_short_of_stack()) return;
  if (!alone && call_filters() != g_call_filters) {  // a new filter might kill for membarrier
    g_may_claim = false;
    return;
  }
  uint32_t nobody = 0, ourselves = index + 1;
  if (!only_writer.compare_exchange_strong(nobody, ourselves, std::memory_order_relaxed)) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the fence in add_slot()
  const bool is_ours = alone ? !any_other(is_any)
                             : !sys::failed(sys::membarrier(kPrivateExpedited)) &&
                                   !any_other([](const ThreadSlot& other) {
                                     return other.stamping.load(std::memory_order_relaxed) != 0;
                                   });
  if (!is_ours || !g_may_claim.load(std::memory_order_relaxed)) {
    only_writer.compare_exchange_strong(ourselves, 0, std::memory_order_relaxed);
    return;
  }
  unstamped = kStampEvery;  // the next record has a stamp that is taken after this
}

/// Called every kLookBytes bytes. Does what is done now and then, and takes the next stretch of the
/// chunk, with room for at least `room` bytes.
void ThreadSlot::look_around(size_t room) {
  keep_to_budget(*g_process, static_cast<size_t>(at - looked_at));
  looked_at = at;
  uint8_t* chunk_end = heap.chunk.begin + heap.chunk.bytes;
  const size_t stretch = kLookBytes + room;
  end = static_cast<size_t>(chunk_end - at) < stretch ? chunk_end : at + stretch;
  claim_only_writer(looked);
  looked = earliest;
}

/// Replaces the row's full chunk by a new one. False (counted as dropped) if there is none.
bool ThreadSlot::begin_chunk(ChunkRow& row, gpupeak_chunk_kind kind, size_t room) {
  if (tid.load(std::memory_order_relaxed) == kUnknownThread && sys::getpid() == g_process->pid)
    tid.store(sys::gettid(), std::memory_order_relaxed);
  const size_t grown = row.chunk.bytes == 0 ? kFirstChunkBytes : row.chunk.bytes * 4;
  size_t bytes = fitting_chunk_bytes(grown < kLargestChunkBytes ? grown : kLargestChunkBytes);
  while (bytes < room + sizeof(gpupeak_chunk_header)) bytes *= 2;
  retire_chunk(row.chunk);
  row.chunk = new_chunk(bytes, kind, index, row.sequence,
                        static_cast<uint32_t>(tid.load(std::memory_order_relaxed)));
  if (row.chunk.begin == nullptr) {
    count(&gpupeak_counters_page::dropped_events);
    return false;
  }
  ++row.sequence;
  return true;
}

bool ThreadSlot::refill(size_t room) {
  if (at != nullptr && static_cast<size_t>(heap.chunk.begin + heap.chunk.bytes - at) >= room) {
    look_around(room);
    return true;
  }
  // log_rests() reads the clock, which costs as much as all else that is done for a lost event.
  constexpr uint32_t kLostBetweenLooks = 16;
  if (log_is_short() && (lost++ % kLostBetweenLooks != 0 || log_rests())) {
    count(&gpupeak_counters_page::dropped_events);
    return false;
  }
  const SignalsHeld held;  // else after a jump the old chunk might be unmapped a second time
  const size_t full = heap.chunk.bytes;
  at = end = nullptr;
  if (!begin_chunk(heap, GPUPEAK_CHUNK_HEAP, room)) return false;
  at = looked_at = heap.chunk.begin + sizeof(gpupeak_chunk_header);
  time = start_ticks_of(heap.chunk);
  address = 0;
  unstamped = time < earliest ? kStampEvery : 0;
  if (time > earliest) earliest = time;
  flush_slot(*this);
  say_log_gap();
  // True once chunks are as large as they get.
  if (heap.chunk.bytes <= full) sample(Moment::kAny);
  look_around(room);
  return static_cast<size_t>(end - at) >= room;
}

bool ThreadSlot::refill_events(size_t room) {
  if (log_rests()) {
    count(&gpupeak_counters_page::dropped_events);
    return false;
  }
  const SignalsHeld held;
  const size_t full = events.chunk.bytes;
  events.at = events.end = nullptr;
  if (!begin_chunk(events, GPUPEAK_CHUNK_EVENTS, room)) return false;
  events.at = events.chunk.begin + sizeof(gpupeak_chunk_header);
  events.end = events.chunk.begin + events.chunk.bytes;
  events.time = start_ticks_of(events.chunk);
  if (events.time > earliest) earliest = events.time;
  flush_slot(*this);
  say_log_gap();
  if (events.chunk.bytes <= full) sample(Moment::kAny);
  return true;
}

GPUPEAK_HOT void ThreadSlot::write(const Record& record) {
  const size_t room = room_for(record);
  if (!events.has_room(room) && !refill_events(room)) return;
  const uint64_t when = event_stamp(*g_process);
  uint8_t* const behind = put_record(events.at, record, when - events.time);
  note_event(when);
  end_record(events.at, record.tag(), behind);
}

bool ThreadSlot::write_to_heap(const Record& record) {
  const size_t room = room_for(record);
  if (!has_room(room) && !refill(room)) return false;
  const uint64_t before = time;
  const uint64_t dt = take_stamp(*g_process, ticks) - before;
  end_record(at, record.tag(), put_record(at, record, dt));
  return true;
}

GPUPEAK_HOT void emit(const Record& record) {
  if (!recording()) return;  // the process only counts
  if (ThreadSlot* slot = thread_slot()) {
    slot->write(record);
  } else {
    count(&gpupeak_counters_page::dropped_events);
  }
}

GPUPEAK_HOT uint32_t capture_stack(const CallerFrame& caller) {
  ThreadSlot* slot = thread_slot();
  if (slot == nullptr) return 0;
  const uint32_t node = standing_stack(slot->stacks, caller);
  return node != 0 ? node : capture_stack(slot->stacks, caller);
}

GPUPEAK_HOT uint32_t capture_call_site(const CallerFrame& caller) {
  ThreadSlot* slot = thread_slot();
  return slot != nullptr ? capture_call_site(slot->stacks, caller) : 0;
}

void forget_stack_memory(uintptr_t begin, uintptr_t end) {
  const auto reads = [=](const ThreadSlot& slot) {
    return slot.stacks.readable.overlaps(begin, end);
  };
  if (g_guessing.load(std::memory_order_relaxed) && any_slot(reads)) drop_cached_stacks();
}

void flush_slot(ThreadSlot& slot) {
  // First for who sums, in one step: a sample takes a while.
  const int64_t delta = slot.heap_delta;
  const uint32_t handing = slot.handing.load(std::memory_order_relaxed);
  slot.handing.store(handing + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // who sees what follows sees `handing`
  slot.handed_on += delta;
  slot.heap_delta = 0;
  slot.handing.store(handing + 2, std::memory_order_release);
  // A large block is about to be freed. It is still resident, and live in the counters page.
  if (delta <= -static_cast<int64_t>(kWorthASample) && recording())
    sample_before_less(static_cast<size_t>(-delta));
  gauge_add(counters().heap, delta, slot.heap_high);
  count(&gpupeak_counters_page::heap_alloc_count, slot.alloc_delta);
  count(&gpupeak_counters_page::heap_free_count, slot.free_delta);
  slot.heap_high = 0;
  slot.alloc_delta = slot.free_delta = 0;
}

void flush_own_slot() {
  ThreadFlags& flags = t_flags;
  if (flags.slot != nullptr && flags.process_generation == g_process->generation)
    flush_slot(*flags.slot);
}

bool sum_heap_totals(HeapTotals& totals) {
  bool exact = true;
  for (ThreadSlot* slot = g_slots.load(std::memory_order_acquire); slot != nullptr;
       slot = slot->next) {
    const uint32_t before = slot->handing.load(std::memory_order_acquire);
    totals.live_bytes += slot->handed_on + slot->heap_delta;
    std::atomic_thread_fence(std::memory_order_acquire);
    exact = exact && before % 2 == 0 && slot->handing.load(std::memory_order_relaxed) == before;
    totals.logged_bytes += slot->logged_bytes;
    totals.freed_unlogged += slot->freed_unlogged;
    totals.frees_unlogged += slot->frees_unlogged;
  }
  return exact;
}

void empty_slots() {
  for (ThreadSlot* slot = g_slots.load(std::memory_order_acquire); slot != nullptr;
       slot = slot->next) {
    retire_chunk(slot->heap.chunk);
    retire_chunk(slot->events.chunk);
    slot->heap = {};
    slot->events = {};
    slot->at = slot->end = slot->looked_at = nullptr;
    slot->time = slot->earliest = slot->looked = slot->address = 0;
    slot->unstamped = slot->lost = slot->window = 0;
    slot->bytes_to_sample = slot->heap_delta = slot->heap_high = 0;
    slot->alloc_delta = slot->free_delta = 0;
    slot->sample_bytes = slot->whole_bytes = 0;
    slot->handed_on = slot->logged_bytes = 0;
    slot->freed_unlogged = slot->frees_unlogged = 0;
    slot->tid.store(kNobody, std::memory_order_release);  // who takes it over finds it empty
  }
}

void abandon_slots() {
  g_slots = nullptr;
  g_look = nullptr;
  g_slot_count = 0;
  TraceTree::abandon_all();
}

}  // namespace gpupeak::preload
