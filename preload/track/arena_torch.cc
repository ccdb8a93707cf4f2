#include "track/arena_torch.h"

#include <atomic>

#include "base/hook_scope.h"
#include "base/hot.h"
#include "base/process_state.h"
#include "thread/own_stack.h"
#include "track/arenas.h"

namespace gpupeak::preload {
namespace {

/// The arena of a device, and the generation of its log: a forked child has another log.
struct DeviceArena {
  std::atomic<uint64_t> arena{0};
  std::atomic<uint64_t> generation{0};
};
constinit DeviceArena g_arenas[GPUPEAK_LOG_MAX_DEVICES];

__attribute__((noinline)) uint64_t make_arena(int device, uint64_t generation) {
  if (!recording()) return 0;
  const uint64_t arena = arena_create("PyTorch", 0, 0, device);
  if (arena == 0) return 0;
  DeviceArena& known = g_arenas[device];
  known.arena.store(arena, std::memory_order_relaxed);
  known.generation.store(generation, std::memory_order_release);
  return arena;
}

/// The device's arena; 0: not recording, or the log has no place for the device. No two threads are
/// here for one device at once, since the caller holds the allocator's lock.
inline uint64_t arena_of(int device) {
  if (device < 0 || device >= static_cast<int>(GPUPEAK_LOG_MAX_DEVICES)) return 0;
  const DeviceArena& known = g_arenas[device];
  const uint64_t generation = g_process->generation + 1;
  return known.generation.load(std::memory_order_acquire) == generation
             ? known.arena.load(std::memory_order_relaxed)
             : make_arena(device, generation);
}

}  // namespace

GPUPEAK_HOT void torch_block_given(int device, uint64_t address, uint64_t bytes,
                                   const ArenaSays& says, const CallerFrame& caller) {
  const uint64_t arena = arena_of(device);
  HookScope hook;
  if (arena == 0 || !hook.entered() || !recording()) return;
  log_arena_block(arena, address, bytes, 0, capture_call_site(caller), says, 0);
  if (watches_all_uses()) torch_use_began(arena, address, bytes);
}

GPUPEAK_HOT void torch_block_taken(int device, uint64_t address, uint64_t bytes,
                                   const ArenaSays& says) {
  const uint64_t arena = arena_of(device);
  HookScope hook;
  if (arena == 0 || !hook.entered() || !recording()) return;
  log_arena_free(arena, address, bytes, says, torch_use_ended);
}

void torch_failed(int device, uint64_t bytes, const ArenaSays& says, const CallerFrame& caller) {
  const uint64_t arena = arena_of(device);
  uint32_t stack = 0;
  {
    HookScope hook;
    if (arena == 0 || !hook.entered() || !recording()) return;
    stack = capture_call_site(caller);
  }
  arena_refused(arena, bytes, {says.in_use_plus_1, says.reserved_plus_1, 0, device}, stack);
}

}  // namespace gpupeak::preload
