// Which streams are being captured into graphs. What an allocator takes from the driver meanwhile
// it keeps for that graph alone, so device blocks are marked with it. HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "base/hot.h"

namespace gpupeak::preload {

/// A capture of `stream` has begun. `of_all_threads`: it forbids all threads to allocate but those
/// that work for it; else the calling thread is the only one.
void capture_began(CUstream stream, bool of_all_threads);
/// It is over, be it by failing.
void capture_ended(CUstream stream);
extern constinit GPUPEAK_OWN std::atomic<uint32_t> g_open_captures;
bool is_captured_here();
/// Whether what this thread takes from the driver now is taken for a graph. One load where nothing
/// is captured.
inline bool allocates_for_capture() {
  return __builtin_expect(g_open_captures.load(std::memory_order_acquire) != 0, 0) &&
         is_captured_here();
}
/// In a forked child.
void forget_captures();

}  // namespace gpupeak::preload
