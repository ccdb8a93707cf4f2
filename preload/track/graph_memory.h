// The memory that graphs reserve, which the driver reports as one figure for each device.
// HOOK-SAFE; called by calls/ inside a DriverScope, outside any HookScope.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "base/hot.h"
#include "track/api_call.h"

namespace gpupeak::preload {

/// Reads what a device's graphs reserve now. Each growth is a block of its own, with `call` as its
/// site.
void graph_reserve_read(const ApiCall& call, int device);
/// Whether this process has made graph memory at all; if not, the reserve need not be read.
bool has_graph_memory();
/// The process makes graph memory.
void note_graph_memory();
/// In a forked child. Holds the book's lock.
void forget_graph_memory();

// Which streams are being captured into graphs. Memory that an allocator takes from the driver
// during a capture is kept for that graph alone, so such blocks have a mark in the log. HOOK-SAFE.

/// A capture of `stream` has begun. `of_all_threads`: only threads that work for the capture may
/// allocate, so what any thread takes is for it. Else only the calling thread takes memory for it.
void capture_began(CUstream stream, bool of_all_threads);
/// The capture has ended or failed.
void capture_ended(CUstream stream);
extern constinit GPUPEAK_OWN std::atomic<uint32_t> g_open_captures;
bool is_captured_here();
/// Whether this thread takes memory from the driver for a graph now. One load if nothing is
/// captured.
inline bool allocates_for_capture() {
  return __builtin_expect(g_open_captures.load(std::memory_order_acquire) != 0, 0) &&
         is_captured_here();
}
/// In a forked child.
void forget_captures();

}  // namespace gpupeak::preload
