#include "track/pool_bfc.h"

#include "base/futex_lock.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "base/text.h"
#include "log/log.h"
#include "thread/emit.h"
#include "thread/own_stack.h"
#include "track/arenas.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kMostArenas = 256;  // a power of two
constexpr uint64_t kFree = 0, kGone = 1;

/// By object, looked up without a lock: an entry that is gone stays one to go on from.
constinit BfcArena g_arenas[kMostArenas];
constinit FutexLock g_lock;  // who adds and removes
constinit std::atomic<bool> g_were_too_many{false};

/// What the log of this generation has been told.
struct Fact {
  Text<256> text;
  uint64_t said_in = 0;
};
constinit Fact g_on[2], g_off;

struct FrameworkNames {
  const char* shown;
  const char* fact;
};
constexpr FrameworkNames kNames[] = {{"ONNX Runtime", "pools.onnxruntime"}, {"XLA", "pools.xla"}};
const FrameworkNames& names_of(BfcFramework framework) {
  return kNames[static_cast<size_t>(framework)];
}

uint64_t generation() {
  return g_process->generation + 1;  // 0 is never one
}

size_t home(uint64_t object) {
  return static_cast<size_t>((object * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % kMostArenas;
}

BfcArena* find(uint64_t object) {
  for (size_t i = 0; i < kMostArenas; ++i) {
    BfcArena& arena = g_arenas[(home(object) + i) % kMostArenas];
    const uint64_t of = arena.object.load(std::memory_order_acquire);
    if (of == object) return &arena;
    if (of == kFree) return nullptr;
  }
  return nullptr;
}

/// The lowest that no arena has, so that those that follow each other share one.
uint32_t free_ordinal(BfcFramework framework) {
  for (uint32_t ordinal = 1;; ++ordinal) {
    bool taken = false;
    for (const BfcArena& arena : g_arenas) {
      taken = taken || (arena.object.load(std::memory_order_relaxed) > kGone &&
                        arena.framework == framework && arena.ordinal == ordinal);
    }
    if (!taken) return ordinal;
  }
}

BfcArena* add(uint64_t object, BfcFramework framework) {
  HookScope hook;
  if (!hook.entered()) return nullptr;
  LockGuard guard(g_lock);
  if (BfcArena* known = find(object)) return known;
  for (size_t i = 0; i < kMostArenas; ++i) {
    BfcArena& arena = g_arenas[(home(object) + i) % kMostArenas];
    if (arena.object.load(std::memory_order_relaxed) > kGone) continue;
    arena.lock.reset();
    arena.apart_now.store(0, std::memory_order_relaxed);
    arena.given_up.store(false, std::memory_order_relaxed);
    arena.number = 0;
    arena.requests = 0;
    arena.framework = framework;
    arena.ordinal = free_ordinal(framework);
    arena.object.store(object, std::memory_order_release);
    return &arena;
  }
  return nullptr;
}

void say(const char* key, Fact& fact) {
  HookScope hook;
  if (!hook.entered() || !recording() || fact.text.view().empty()) return;
  LockGuard guard(g_lock);
  if (fact.said_in == generation()) return;
  fact.said_in = generation();
  Record record(GPUPEAK_DEF_FACT);
  define(record.s(key).s(fact.text.view()));
}

/// The first reason is said; of others the report would be no clearer.
void note(Fact& fact, std::string_view text) {
  HookScope hook;
  if (!hook.entered()) return;
  LockGuard guard(g_lock);
  if (fact.text.view().empty()) fact.text.add(text);
}

bool is_known(const BfcArena& arena) {
  return arena.number != 0 && arena.generation == generation() &&
         !arena.given_up.load(std::memory_order_relaxed);
}

}  // namespace

BfcArena* bfc_arena_of(uint64_t object, BfcFramework framework) {
  if (object <= kGone || !recording()) return nullptr;
  BfcArena* arena = find(object);
  if (arena == nullptr) arena = add(object, framework);
  if (arena == nullptr && !g_were_too_many.exchange(true)) {
    bfc_pools_off("more arenas at once than are followed");
  }
  return arena != nullptr && !arena->given_up.load(std::memory_order_relaxed) ? arena : nullptr;
}

uint32_t bfc_call_site(const CallerFrame& caller) {
  HookScope hook;
  return hook.entered() && recording() ? capture_call_site(caller) : 0;
}

void bfc_arena_asked(BfcArena& arena, const BfcArenaTotals& now) {
  if (is_known(arena) && now.requests < arena.requests && now.in_use == 0) {
    // Another object, where one was that went without its destructor being called through its
    // table (or one whose statistics were cleared).
    arena_event(arena.number, GPUPEAK_ARENA_DESTROYED);
    arena.number = 0;
  }
  arena.requests = now.requests;
  if (is_known(arena) || arena.given_up.load(std::memory_order_relaxed) || !recording()) return;
  say_bfc_pools();
  Text<32> name;
  name.add(names_of(arena.framework).shown);
  if (arena.ordinal > 1) name.add(" (").add(uint64_t{arena.ordinal}).add(")");
  arena.number = arena_create(name.view(), 0, 0);
  arena.generation = generation();
  arena.has_older = now.in_use > 0;
}

void bfc_block_given(BfcArena& arena, uint64_t address, uint64_t bytes, const BfcArenaTotals* after,
                     uint32_t stack) {
  if (after != nullptr) arena.requests = after->requests;
  HookScope hook;
  if (!is_known(arena) || !hook.entered() || !recording()) return;
  // Where not all of the heap is in the log, the host's arenas lie in blocks that it does not know.
  const bool heap_is_whole =
      g_process->host_mode == HostMode::kFull && g_process->sampled_late == 0;
  const bool compares = heap_is_whole || g_process->host_mode == HostMode::kOff;
  Record record(GPUPEAK_REC_ARENA_ALLOC);
  record.u(arena.number).u(address).u(bytes).u(0).u(stack);
  record.u(after != nullptr ? static_cast<uint64_t>(after->in_use) + 1 : 0);
  const bool says_reserved = after != nullptr && compares;
  emit(record.u(says_reserved ? static_cast<uint64_t>(after->reserved) + 1 : 0));
}

void bfc_block_taken(BfcArena& arena, uint64_t address) {
  if (is_known(arena)) arena_freed(arena.number, address);
}

void bfc_block_returned(BfcArena& arena, uint64_t address, uint64_t bytes,
                        const BfcArenaTotals* after) {
  HookScope hook;
  if (!is_known(arena) || !hook.entered() || !recording()) return;
  Record record(GPUPEAK_REC_ARENA_FREE);
  record.u(arena.number).u(address).u(bytes);
  emit(record.u(after != nullptr ? static_cast<uint64_t>(after->in_use) + 1 : 0).u(0));
}

void bfc_request_failed(BfcArena& arena, uint64_t bytes, const BfcArenaTotals& before,
                        uint32_t stack, bool jumped) {
  if (!is_known(arena)) return;
  Refusal refusal{.in_use_plus_1 = static_cast<uint64_t>(before.in_use) + 1,
                  .reserved_plus_1 = static_cast<uint64_t>(before.reserved) + 1,
                  .ask_driver = !jumped};
  if (before.limit > 0 && before.limit != INT64_MAX)
    refusal.limit_plus_1 = static_cast<uint64_t>(before.limit) + 1;
  arena_refused(arena.number, bytes, refusal, stack);
}

void bfc_arena_gone(uint64_t object) {
  BfcArena* const arena = object > kGone ? find(object) : nullptr;
  if (arena == nullptr) return;
  if (is_known(*arena)) arena_event(arena->number, GPUPEAK_ARENA_DESTROYED);
  HookScope hook;
  if (!hook.entered()) return;
  LockGuard guard(g_lock);
  arena->object.store(kGone, std::memory_order_release);
}

void bfc_arena_give_up(BfcArena& arena, std::string_view why) {
  const bool known = is_known(arena);
  if (arena.given_up.exchange(true)) return;
  Text<256> text;
  text.add(names_of(arena.framework).shown).add(": ").add(why);
  bfc_pools_off(text.view());
  if (known) arena_event(arena.number, GPUPEAK_ARENA_DESTROYED);
}

void bfc_give_up_all(BfcFramework framework, std::string_view why) {
  for (BfcArena& arena : g_arenas) {
    if (arena.object.load(std::memory_order_acquire) > kGone && arena.framework == framework)
      bfc_arena_give_up(arena, why);
  }
}

void bfc_pools_on(BfcFramework framework, std::string_view version) {
  Fact& fact = g_on[static_cast<size_t>(framework)];
  note(fact, version);
  say(names_of(framework).fact, fact);
}

void bfc_pools_off(std::string_view why) {
  note(g_off, why);
  say("pools.off", g_off);
}

void say_bfc_pools() {
  for (const BfcFramework framework : {BfcFramework::kOnnxRuntime, BfcFramework::kXla}) {
    say(names_of(framework).fact, g_on[static_cast<size_t>(framework)]);
  }
  say("pools.off", g_off);
}

void reset_bfc_arenas() {
  g_lock.reset();
  for (BfcArena& arena : g_arenas) {
    arena.lock.reset();
    arena.apart_now.store(0, std::memory_order_relaxed);
  }
}

}  // namespace gpupeak::preload
