// The call stack as one number: a node of the log's trie of stacks. HOOK-SAFE, inside a HookScope.
//
// in    the calling thread's stack: malloc ← load_weights ← main
// out   17: node 17 is load_weights below node 16, which is main below the root
//
// How it is found, each way only if the one before fails: the stack is one that the thread
// remembers (trace_tree.h); its outer frames are those of the last walk (stack_cache.h); unwind
// rules by return address (frame_rules.h); libunwind (unwinder.h).
#pragma once

#include <cstdint>

#include "stack/frame_layout.h"

namespace gpupeak::preload {

struct StackCache;

/// The registers that a hook's caller will have when the hook returns.
struct CallerFrame {
  uintptr_t ip, sp, fp;

  /// From the hook's own __builtin_frame_address(0), where a call has pushed the return address and
  /// the function then the frame pointer.
  static CallerFrame of(const void* frame_address) {
    const auto* frame = static_cast<const uintptr_t*>(frame_address);
    return {frame[1], reinterpret_cast<uintptr_t>(frame + 2), frame[0]};
  }
};

/// The caller's stack as a node id (0: none), by what its thread remembers. HOOK-SAFE, inside a
/// HookScope only. Walks by the rules of frame_rules.h as far as the stack differs from the
/// thread's last one, and by libunwind where a frame needs more: some 20 ns warm, some us for a
/// stack never seen.
uint32_t capture_stack(StackCache& cache, const CallerFrame& caller);

/// The caller's stack with the thread's Python frames, each placed inside of the native frame that
/// runs it. In Python code about a microsecond more; some 10 us and more at first sight, and in
/// threads that are not the interpreter's first.
uint32_t capture_call_site(StackCache& cache, const CallerFrame& caller);

}  // namespace gpupeak::preload
