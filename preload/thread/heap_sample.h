// How much of the heap is logged: every block, or of small ones a Poisson sample by bytes. With
// GPUPEAK_HOST=auto a process begins with every block and goes over to a sample once that has cost
// more than a few percent of its time; with GPUPEAK_HOST=full it does so where the log reaches
// GPUPEAK_LOG_MAX. docs/design.md, "Which blocks are logged". HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/process_state.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {

// A bit for each 8 bytes of addresses: a live heap block has a mark, or has none. So any thread
// that frees the block knows whether it is in the log. ProcessPage::marked says which blocks have
// marks: those that the log has, or those that it does not have. Lock-free. HOOK-SAFE.

/// The table covers all addresses that a program can have. A leaf exists only where a block has
/// been marked, so that the table fits under `ulimit -v`.
constexpr uint64_t kMarkedAddresses = uint64_t{1} << 47;
constexpr uint64_t kLeafAddresses = 256 << 20;
using MarkLeaf = std::atomic<uint8_t>*;
extern GPUPEAK_OWN std::atomic<std::atomic<MarkLeaf>*> g_mark_leaves;

/// Makes the table, with no block marked: a forked child forgets its parent's marks. False: no
/// memory.
bool begin_marks();
/// Counts a dropped event if there is no memory for the mark.
void mark_block(const void* block);
/// Takes the mark away. True if the block had one.
bool unmark_block(const void* block);

inline __attribute__((always_inline)) bool is_marked(const void* block) {
  std::atomic<MarkLeaf>* const leaves = g_mark_leaves.load(std::memory_order_acquire);
  if (leaves == nullptr) return false;
  const auto address = reinterpret_cast<uint64_t>(block);
  const MarkLeaf leaf =
      leaves[(address & (kMarkedAddresses - 1)) / kLeafAddresses].load(std::memory_order_acquire);
  if (leaf == nullptr) return false;
  const uint8_t byte = leaf[(address & (kLeafAddresses - 1)) / 64].load(std::memory_order_relaxed);
  return (byte >> (address >> 3 & 7) & 1) != 0;
}

/// Blocks of that many bytes are few, and most of a peak: they have their Python lines.
constexpr size_t kLargeBytes = 64 << 10;
/// In a sample with that mean, blocks of so many bytes and more are all logged: one that is cheap
/// enough has all large ones.
constexpr uint64_t whole_bytes(uint64_t sample_bytes) {
  return sample_bytes / 8 > kLargeBytes ? sample_bytes / 8 : kLargeBytes;
}

/// The mean that a sample begins with, by that mode: enum gpupeak_host_mode.
uint64_t sample_bytes_asked_for(uint32_t mode);
/// What the environment asks for, or as much of it as there is memory for; counters alone if
/// `counters_alone`. As the log opens.
void begin_heap_record(ProcessPage& process, bool counters_alone);
/// Now and then, when a thread has written so many bytes more: goes over to a sample if it is time.
void keep_to_budget(ProcessPage& process, size_t written_bytes);

/// Whether a block joins the thread's sample. Says first in the thread's stream, if it does not say
/// so yet, that its blocks are one.
bool joins_sample(ProcessPage& process, ThreadSlot& slot, size_t bytes);
/// Says in the thread's stream, if a sample has begun there, that the next block is none of it.
void say_whole(ThreadSlot& slot);
/// The record of a block that joined is written: the next may be of a thinner sample.
void sample_was_taken(ProcessPage& process, ThreadSlot& slot);

// Begins and ends the recording of the heap while the program runs. `gpupeak attach` and `detach`
// ask for it from outside, by a word in the log's counters page. A window is the time from such a
// begin to its end. docs/design.md, "Dormant". HOOK-SAFE, inside a HookScope.

/// Call it as the log opens. The process listens to requests only if the heap is only counted.
void begin_listening(ProcessPage& process);
/// The first window, which the process itself begins; nothing happens if it does not listen.
/// `pending_bytes`: of blocks that are counted already and will be recorded.
void begin_window(ProcessPage& process, uint32_t mode, size_t pending_bytes);
/// Begins a window of `mode`, or ends the open one. Called by a thread of this process that is in
/// no hook, and that has opened a HookScope. open_window() returns false if no window began: one is
/// open already, the log cannot grow now, or there is no memory for the marks.
bool open_window(ProcessPage& process, uint32_t mode);
void close_window(ProcessPage& process);
/// Answers the request in the counters page, if there is a new one.
void answer_in_scope(ProcessPage& process);
inline void look_at_request(ProcessPage& process) {
  if (is_window_asked_for(process)) answer_in_scope(process);
}
/// Call it before a thread's heap event in a window: the thread's stream then says how its blocks
/// are chosen.
void enter_window(ProcessPage& process, ThreadSlot& slot);

/// These two keep a slot's sums of blocks that the log has and of blocks that it does not have. For
/// logs that may have windows.
inline void note_logged(ThreadSlot& slot, size_t usable_bytes) {
  slot.logged_bytes += static_cast<int64_t>(usable_bytes);
}
inline void note_freed(const ProcessPage& process, ThreadSlot& slot, bool was_logged,
                       size_t usable_bytes) {
  if (was_logged) {
    slot.logged_bytes -= static_cast<int64_t>(usable_bytes);
  } else if (process.window != 0) {
    slot.freed_unlogged += usable_bytes;
    slot.frees_unlogged += 1;
  }
}

}  // namespace gpupeak::preload
