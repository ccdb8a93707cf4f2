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

struct ThreadSlot;

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
/// A window begins (thread/heap_windows), in which the heap is recorded by `mode`; or ends.
void begin_window_record(ProcessPage& process, uint32_t mode);
void end_window_record(ProcessPage& process);
/// The thread's blocks are all logged from here on, until they are a sample.
void begin_stream_of_window(ThreadSlot& slot);
/// A small block that is logged in full got its Python lines, which are of its cost.
inline void note_python_lines(ProcessPage& process) {
  __atomic_fetch_add(&process.lined_blocks, 1, __ATOMIC_RELAXED);
}
/// Now and then, when a thread has written so many bytes more: goes over to a sample if it is time.
void keep_to_budget(ProcessPage& process, size_t written_bytes);

/// Whether a block joins the thread's sample. Says first in the thread's stream, if it does not say
/// so yet, that its blocks are one.
bool joins_sample(ProcessPage& process, ThreadSlot& slot, size_t bytes);
/// The record of a block that joined is written: the next may be of a thinner sample.
void sample_was_taken(ProcessPage& process, ThreadSlot& slot);

}  // namespace gpupeak::preload
