#include "track/captures.h"

#include <atomic>

#include "base/hook_scope.h"

namespace gpupeak::preload {
namespace {

/// A stream that is being captured, and the thread that takes memory for the capture; 0: any
/// thread.
struct Capture {
  std::atomic<uintptr_t> stream{0};  ///< + 1, since the default stream is null; 0: free
  std::atomic<uintptr_t> thread{0};
};
constexpr size_t kMostCaptures = 16;  // blocks of further captures have no mark
constinit Capture g_captures[kMostCaptures];

uintptr_t key_of(CUstream stream) {
  return reinterpret_cast<uintptr_t>(stream) + 1;
}
/// A number that no other live thread has: the address of its flags.
uintptr_t this_thread() {
  return reinterpret_cast<uintptr_t>(&t_flags);
}

}  // namespace

constinit std::atomic<uint32_t> g_open_captures{0};

void capture_began(CUstream stream, bool of_all_threads) {
  for (Capture& capture : g_captures) {
    uintptr_t free = 0;
    if (!capture.stream.compare_exchange_strong(free, key_of(stream))) continue;
    capture.thread.store(of_all_threads ? 0 : this_thread(), std::memory_order_relaxed);
    g_open_captures.fetch_add(1, std::memory_order_release);
    return;
  }
}

void capture_ended(CUstream stream) {
  for (Capture& capture : g_captures) {
    uintptr_t key = key_of(stream);
    if (!capture.stream.compare_exchange_strong(key, 0)) continue;
    g_open_captures.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
}

bool is_captured_here() {
  for (const Capture& capture : g_captures) {
    if (capture.stream.load(std::memory_order_relaxed) == 0) continue;
    const uintptr_t thread = capture.thread.load(std::memory_order_relaxed);
    if (thread == 0 || thread == this_thread()) return true;
  }
  return false;
}

void forget_captures() {
  for (Capture& capture : g_captures) capture.stream = 0;
  g_open_captures = 0;
}

}  // namespace gpupeak::preload
