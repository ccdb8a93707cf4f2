#include "track/arenas.h"

#include <atomic>
#include <cerrno>

#include "base/hook_scope.h"
#include "base/process_state.h"
#include "log/log.h"
#include "thread/emit.h"
#include "thread/own_stack.h"
#include "track/arena_events.h"
#include "track/device_book.h"
#include "track/driver.h"
#include "track/last_use.h"
#include "track/limit.h"

namespace gpupeak::preload {
namespace {

constinit std::atomic<uint64_t> g_last_arena{0};

}  // namespace

uint64_t arena_create(const Name& name, uint64_t address, uint64_t bytes, int device) {
  HookScope hook;
  if (!hook.entered() || !recording()) return 0;
  const uint64_t arena = g_last_arena.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint32_t id = id_of(name);
  Record record(GPUPEAK_REC_ARENA);
  record.u(arena).u(GPUPEAK_ARENA_CREATED).u(id).u(address).u(bytes);
  record.s(id == 0 ? name.text : std::string_view());
  emit(record.u(static_cast<uint64_t>(device + 1)));
  return arena;
}

void arena_event(uint64_t arena, gpupeak_arena_event event) {
  HookScope hook;
  if (arena == 0 || !hook.entered() || !recording()) return;
  arena_uses_ended(arena);
  Record record(GPUPEAK_REC_ARENA);
  emit(record.u(arena).u(event));
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
  const int program_errno = errno;
  const int current = recording() && refusal.ask_driver ? current_device() : kNoDevice;
  uint64_t free_bytes = 0, total_bytes = 0;
  const bool known = current != kNoDevice && (refusal.device < 0 || refusal.device == current) &&
                     visible_memory_info(free_bytes, total_bytes);
  errno = program_errno;
  HookScope hook;
  if (arena == 0 || !hook.entered() || !recording()) return;
  if (known) introduce_device(current);
  Record record(GPUPEAK_REC_ARENA_FAILED);
  record.u(arena).u(bytes).u(refusal.in_use_plus_1).u(refusal.reserved_plus_1).u(stack);
  record.u(logged_device(refusal.device < 0 ? current : refusal.device));
  record.u(known ? free_bytes + 1 : 0).u(known ? total_bytes + 1 : 0);
  emit(record.u(refusal.limit_plus_1));
}

}  // namespace gpupeak::preload
