// How much of the heap is logged: every block, or of small ones a Poisson sample by bytes. With
// GPUPEAK_HOST=auto a process begins with every block and goes over to a sample once that has cost
// more than a few percent of its time; with GPUPEAK_HOST=full it does so where the log reaches
// GPUPEAK_LOG_MAX. docs/design.md, "Which blocks are logged". HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/process_state.h"

namespace gpupeak::preload {

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
