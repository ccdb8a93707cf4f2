#include "track/arenas.h"

#include <atomic>

#include "base/hook_scope.h"
#include "base/kept_errno.h"
#include "base/process_state.h"
#include "log/log.h"
#include "track/device_book.h"
#include "track/driver.h"
#include "track/limit.h"

namespace gpupeak::preload {
namespace {

constinit std::atomic<uint64_t> g_last_arena{0};

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
  if (!has_counters(device)) return 0;
  const DeviceArena& known = g_arenas[device];
  const uint64_t generation = g_process->generation + 1;
  return known.generation.load(std::memory_order_acquire) == generation
             ? known.arena.load(std::memory_order_relaxed)
             : make_arena(device, generation);
}

}  // namespace

uint64_t arena_create(const Name& name, uint64_t address, uint64_t bytes, int device) {
  HookScope hook;
  if (!hook.entered() || !recording()) return 0;
  const uint64_t arena = g_last_arena.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint32_t id = id_of(name);
  emit(Record{GPUPEAK_REC_ARENA, arena, GPUPEAK_ARENA_CREATED, id, address, bytes,
              id == 0 ? name.text : std::string_view(), device + 1});
  return arena;
}

void arena_event(uint64_t arena, gpupeak_arena_event event) {
  HookScope hook;
  if (arena == 0 || !hook.entered() || !recording()) return;
  arena_uses_ended(arena);
  emit(Record{GPUPEAK_REC_ARENA, arena, event});
}

void arena_allocated(uint64_t arena, uint64_t address, uint64_t bytes, const Name& name,
                     const CallerFrame& caller) {
  HookScope hook;
  if (arena == 0 || !hook.entered() || !recording()) return;
  log_arena_block(arena, address, bytes, id_of(name), capture_stack(caller), {}, 0);
  if (watches_all_uses()) arena_use_began(arena, address, bytes);
}

void arena_freed(uint64_t arena, uint64_t address) {
  HookScope hook;
  if (arena == 0 || !hook.entered() || !recording()) return;
  log_arena_free(arena, address, 0, {});
}

void arena_refused(uint64_t arena, uint64_t bytes, const Refusal& refusal, uint32_t stack) {
  // cuMemGetInfo breaks no capture (docs/driver-behaviour.md), but needs a context.
  const KeptErrno program_errno;
  const int current = recording() && refusal.ask_driver ? current_device() : kNoDevice;
  uint64_t free_bytes = 0, total_bytes = 0;
  const bool known = current != kNoDevice && (refusal.device < 0 || refusal.device == current) &&
                     visible_memory_info(free_bytes, total_bytes);
  HookScope hook;
  if (arena == 0 || !hook.entered() || !recording()) return;
  if (known) introduce_device(current);
  emit(Record{GPUPEAK_REC_ARENA_FAILED, arena, bytes, refusal.in_use_plus_1,
              refusal.reserved_plus_1, stack,
              logged_device(refusal.device < 0 ? current : refusal.device),
              known ? free_bytes + 1 : 0, known ? total_bytes + 1 : 0, refusal.limit_plus_1});
}

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
