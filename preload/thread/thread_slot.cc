#include "thread/thread_slot.h"

#include <cerrno>
#include <cstring>
#include <new>

#include "base/futex_lock.h"
#include "base/hot.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "log/log.h"
#include "thread/emit.h"
#include "thread/sample.h"
#include "thread/sampled_set.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kFirstChunkBytes = 4096;
constexpr size_t kLargestChunkBytes = 256 << 10;
constexpr size_t kLookBytes = 8 << 10;
/// Of a slot that a vfork child has made, for the thread whose memory it is in: it has another id.
constexpr int kUnknownThread = 0;

constinit FutexLock g_slots_lock;
constinit ThreadSlot* g_slots = nullptr;
constinit ThreadSlot* g_look = nullptr;  // where find_free_slot() goes on; nullptr: at g_slots
constinit uint32_t g_slot_count = 0;
constinit std::atomic<bool> g_may_claim{false};
constinit int g_call_filters = 0;  // when claims were allowed

/// Whether the process has no such thread; asked by the log's process id, since a vfork child has
/// another one.
bool is_gone(int tid) {
  return sys::tgkill(g_process->pid, tid, 0) == -ESRCH;
}

/// A slot whose thread has ended, if one of the next few is such: looking at all would cost each
/// new thread a system call for each that lives. Holds the lock.
ThreadSlot* find_free_slot(int tid) {
  constexpr uint32_t kLooks = 8;
  const uint32_t looks = g_slot_count < kLooks ? g_slot_count : kLooks;
  for (uint32_t i = 0; i < looks; ++i) {
    ThreadSlot* slot = g_look != nullptr ? g_look : g_slots;
    g_look = slot->next;
    const int owner = slot->tid.load(std::memory_order_relaxed);
    if (owner != kUnknownThread && (owner == tid || is_gone(owner))) return slot;
  }
  return nullptr;
}

void read_thread_name(Text<32>& name) {
  char buffer[16] = {};
  sys::call6(SYS_prctl, 16 /* PR_GET_NAME */, reinterpret_cast<long>(buffer), 0, 0, 0, 0);
  name.add(std::string_view(buffer, strnlen(buffer, sizeof buffer)));
}

}  // namespace

ThreadSlot* make_thread_slot() {
  const int tid = sys::getpid() == g_process->pid ? sys::gettid() : kUnknownThread;
  ThreadSlot* slot;
  {
    LockGuard guard(g_slots_lock);
    slot = find_free_slot(tid);
    if (slot == nullptr) {
      void* at = map_pages((sizeof(ThreadSlot) + 4095) / 4096 * 4096);
      if (at == nullptr) return nullptr;
      slot = new (at) ThreadSlot;
      slot->index = g_slot_count++;
      slot->next = g_slots;
      g_slots = slot;
    } else {
      slot->stacks.begin_thread();
    }
    slot->tid.store(tid, std::memory_order_relaxed);
  }
  t_flags.slot = slot;
  t_flags.process_generation = g_process->generation;
  if (tid == kUnknownThread) return slot;
  Text<32> name;
  read_thread_name(name);
  Record record(GPUPEAK_REC_THREAD);
  emit(record.u(static_cast<uint64_t>(tid)).s(name.view()));
  return slot;
}

bool any_slot_reads(uintptr_t begin, uintptr_t end) {
  LockGuard guard(g_slots_lock);
  for (const ThreadSlot* slot = g_slots; slot != nullptr; slot = slot->next) {
    if (slot->stacks.readable.overlaps(begin, end)) return true;
  }
  return false;
}

void allow_only_writer(bool allowed) {
  constexpr long kRegisterPrivateExpedited = 1 << 4;
  LockGuard guard(g_slots_lock);
  g_call_filters = call_filters();
  g_may_claim = allowed && !sys::failed(sys::membarrier(kRegisterPrivateExpedited));
}

void stamp_every_event() {
  LockGuard guard(g_slots_lock);  // no claim is under way
  g_may_claim = false;
  std::atomic_ref<uint32_t>(g_process->only_writer).store(0, std::memory_order_release);
}

/// If nobody else has logged since, becomes the only writer. Of another thread that is about to
/// log, either it will see the claim and end it, or its `stamping` is seen here: the barrier is one
/// for all threads.
void ThreadSlot::claim_only_writer(uint64_t quiet_since) {
  constexpr long kPrivateExpedited = 1 << 3;
  if (!g_may_claim.load(std::memory_order_relaxed)) return;
  LockGuard guard(g_slots_lock);  // no new slots meanwhile
  const auto any_other = [this](auto&& is_busy) {
    for (ThreadSlot* slot = g_slots; slot != nullptr; slot = slot->next) {
      if (slot != this && is_busy(*slot)) return true;
    }
    return false;
  };
  if (any_other([quiet_since](ThreadSlot& other) {
        return std::atomic_ref<uint64_t>(other.time).load(std::memory_order_relaxed) > quiet_since;
      })) {
    return;
  }
  std::atomic_ref<uint32_t> only_writer(g_process->only_writer);
  if (only_writer.load(std::memory_order_relaxed) != 0) return;
  const bool alone = !any_other([](ThreadSlot&) { return true; });
  if (!alone && is_short_of_stack()) return;
  if (!alone && call_filters() != g_call_filters) {  // a filter since might kill for membarrier
    g_may_claim = false;
    return;
  }
  uint32_t nobody = 0, ourselves = index + 1;
  if (!only_writer.compare_exchange_strong(nobody, ourselves)) return;
  if (!alone &&
      (sys::failed(sys::membarrier(kPrivateExpedited)) || any_other([](ThreadSlot& other) {
         return other.stamping.load(std::memory_order_acquire) != 0;
       }))) {
    only_writer.compare_exchange_strong(ourselves, 0);
    return;
  }
  unstamped = kStampEvery;  // the next record has a stamp, taken after this
}

/// Now and then, with room for `room` bytes: takes the next stretch of the chunk.
void ThreadSlot::look_around(size_t room) {
  uint8_t* chunk_end = chunk.begin + chunk.bytes;
  const size_t stretch = kLookBytes + room;
  end = static_cast<size_t>(chunk_end - at) < stretch ? chunk_end : at + stretch;
  claim_only_writer(looked);
  looked = time;
}

bool ThreadSlot::refill(size_t room) {
  if (at != nullptr && static_cast<size_t>(chunk.begin + chunk.bytes - at) >= room) {
    look_around(room);
    return true;
  }
  const SignalsHeld held;  // else a jump might leave the old chunk to be unmapped once more
  if (tid.load(std::memory_order_relaxed) == kUnknownThread && sys::getpid() == g_process->pid)
    tid.store(sys::gettid(), std::memory_order_relaxed);
  const size_t grown = chunk.bytes == 0 ? kFirstChunkBytes : chunk.bytes * 4;
  size_t bytes = fitting_chunk_bytes(grown < kLargestChunkBytes ? grown : kLargestChunkBytes);
  while (bytes < room + sizeof(gpupeak_chunk_header)) bytes *= 2;
  const bool sample_now = bytes <= chunk.bytes;  // chunks have grown as large as they get
  retire_chunk(chunk);
  at = end = nullptr;
  chunk = new_chunk(bytes, GPUPEAK_CHUNK_EVENTS, index, sequence,
                    static_cast<uint32_t>(tid.load(std::memory_order_relaxed)));
  if (chunk.begin == nullptr) {
    count(&gpupeak_counters_page::dropped_events);
    return false;
  }
  ++sequence;
  at = chunk.begin + sizeof(gpupeak_chunk_header);
  time = reinterpret_cast<gpupeak_chunk_header*>(chunk.begin)->start_ticks;
  address = 0;
  unstamped = 0;
  flush_slot(*this);
  if (sample_now && !is_short_of_stack()) sample_process();
  keep_to_log_limit();
  look_around(room);
  return static_cast<size_t>(end - at) >= room;
}

GPUPEAK_HOT void ThreadSlot::write(const Record& record) {
  const size_t room = record.bytes() + 32;
  if (static_cast<size_t>(end - at) < room && !refill(room)) return;
  const uint64_t before = time;
  const uint64_t dt = take_stamp(*g_process, ticks) - before;
  // The length stands before dt: of most records it takes one byte, else dt moves on by another.
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
  std::atomic_ref<uint8_t>(*at).store(record.tag(), std::memory_order_release);
  at = to + record.bytes();
}

GPUPEAK_HOT void emit(const Record& record) {
  if (ThreadSlot* slot = thread_slot()) {
    slot->write(record);
  } else {
    count(&gpupeak_counters_page::dropped_events);
  }
}

void flush_slot(ThreadSlot& slot) {
  gpupeak_counters_page& page = counters();
  gauge_add(page.heap, slot.heap_delta);
  count(&gpupeak_counters_page::heap_alloc_count, slot.alloc_delta);
  count(&gpupeak_counters_page::heap_free_count, slot.free_delta);
  slot.heap_delta = 0;
  slot.alloc_delta = slot.free_delta = 0;
}

void flush_own_slot() {
  ThreadFlags& flags = t_flags;
  if (flags.slot != nullptr && flags.process_generation == g_process->generation)
    flush_slot(*flags.slot);
}

void abandon_slots() {
  g_slots_lock.reset();
  g_slots = g_look = nullptr;
  g_slot_count = 0;
  TraceTree::abandon_all();
}

}  // namespace gpupeak::preload
