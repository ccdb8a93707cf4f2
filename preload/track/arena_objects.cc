#include "track/arena_objects.h"

#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/kept_errno.h"
#include "base/process_state.h"
#include "log/log.h"
#include "thread/emit.h"
#include "track/arenas.h"
#include "track/driver.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kMostArenas = 256;  // a power of two
constexpr uint64_t kFree = 0, kGone = 1;

/// By object. The look-up takes no lock, so an entry that is gone is marked kGone, and the look-up
/// goes on behind it.
constinit ArenaObject g_arenas[kMostArenas];
constinit FutexLock g_lock;  // for adding and removing
constinit std::atomic<bool> g_were_too_many{false};

/// A fact that is written once into each log. A forked child has a log of its own.
struct Fact {
  const void* of = nullptr;  ///< a maker, or what some fact is of; nullptr: this place is free
  const char* key = nullptr;
  Text<256> text;
  uint64_t said_in = 0;
};
constexpr size_t kMostFacts = 32;
constinit Fact g_facts[kMostFacts];

uint64_t generation() {
  return g_process->generation + 1;  // 0 is never one
}

size_t home(uint64_t object) {
  return static_cast<size_t>((object * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % kMostArenas;
}

ArenaObject* find(uint64_t object) {
  for (size_t i = 0; i < kMostArenas; ++i) {
    ArenaObject& arena = g_arenas[(home(object) + i) % kMostArenas];
    const uint64_t of = arena.object.load(std::memory_order_acquire);
    if (of == object) return &arena;
    if (of == kFree) return nullptr;
  }
  return nullptr;
}

/// The lowest ordinal that no arena of the maker has, so that arenas that follow each other have
/// the same name.
uint32_t free_ordinal(const ArenaMaker& maker) {
  for (uint32_t ordinal = 1;; ++ordinal) {
    bool taken = false;
    for (const ArenaObject& arena : g_arenas)
      taken = taken || (arena.object.load(std::memory_order_relaxed) > kGone &&
                        arena.maker == &maker && arena.ordinal == ordinal);
    if (!taken) return ordinal;
  }
}

ArenaObject* add(uint64_t object, const ArenaMaker& maker) {
  HookScope hook;
  if (!hook.entered()) return nullptr;
  LockGuard guard(g_lock);
  if (ArenaObject* known = find(object)) return known;
  for (size_t i = 0; i < kMostArenas; ++i) {
    ArenaObject& arena = g_arenas[(home(object) + i) % kMostArenas];
    if (arena.object.load(std::memory_order_relaxed) > kGone) continue;
    arena.lock.reset();
    arena.apart_now.store(0, std::memory_order_relaxed);
    arena.given_up.store(false, std::memory_order_relaxed);
    arena.number = 0;
    arena.requests = 0;
    arena.maker = &maker;
    arena.ordinal = free_ordinal(maker);
    arena.object.store(object, std::memory_order_release);
    return &arena;
  }
  return nullptr;
}

/// Only the first text of each goes into the log: one reason is enough for the report.
void add_fact(const void* of, const char* key, std::string_view text) {
  {
    HookScope hook;
    if (!hook.entered()) return;
    LockGuard guard(g_lock);
    for (Fact& fact : g_facts) {
      if (fact.of == of) break;
      if (fact.of != nullptr) continue;
      fact.of = of;
      fact.key = key;
      fact.text.add(text);
      break;
    }
  }
  say_arenas();
}

bool is_known(const ArenaObject& arena) {
  return arena.number != 0 && arena.generation == generation() &&
         !arena.given_up.load(std::memory_order_relaxed);
}

/// Logs the arena. `block`: an address in one of its blocks, to ask the driver for the device. The
/// log cannot tell the device if the arena's memory is from before it. 0: do not ask.
void make_known(ArenaObject& arena, uint64_t block) {
  if (arena.given_up.load(std::memory_order_relaxed) || !recording()) return;
  say_arenas();
  Text<64> name(arena.maker->shown);
  if (arena.ordinal > 1) name.add(" (").add(arena.ordinal).add(")");
  const KeptErrno program_errno;
  const int device = block != 0 ? device_at(block) : kNoDevice;
  arena.number = arena_create(name.view(), 0, 0, device);
  arena.generation = generation();
}

}  // namespace

ArenaObject* arena_object_of(uint64_t object, const ArenaMaker& maker) {
  if (object <= kGone || !recording()) return nullptr;
  ArenaObject* arena = find(object);
  if (arena == nullptr) arena = add(object, maker);
  if (arena == nullptr && !g_were_too_many.exchange(true))
    arenas_off("more arenas at once than are followed");
  return arena != nullptr && !arena->given_up.load(std::memory_order_relaxed) ? arena : nullptr;
}

uint32_t arena_call_site(const CallerFrame& caller) {
  HookScope hook;
  return hook.entered() && recording() ? capture_call_site(caller) : 0;
}

void arena_requested(ArenaObject& arena, const ArenaTotals& now) {
  if (is_known(arena) && now.requests < arena.requests && now.in_use == 0) {
    // The old object went without a call of its destructor through its table, and another object is
    // there now. (Or its statistics were cleared.)
    arena_event(arena.number, GPUPEAK_ARENA_DESTROYED);
    arena.number = 0;
  }
  arena.requests = now.requests;
  if (is_known(arena)) return;
  arena.has_older = now.in_use > 0;
  if (!came_late() || !arena.has_older) make_known(arena, 0);
}

void arena_block_given(ArenaObject& arena, uint64_t address, uint64_t bytes, uint64_t asked,
                       const ArenaTotals* after, uint32_t stack) {
  if (after != nullptr) arena.requests = after->requests;
  if (!is_known(arena)) make_known(arena, address);
  HookScope hook;
  if (!is_known(arena) || !hook.entered() || !recording()) return;
  // If the log does not have all of the heap, the host's arenas may lie in blocks that are not in
  // the log. Then `reserved` cannot be compared.
  const HostMode mode = g_process->host_mode;
  const bool compares = mode == HostMode::kFull || mode == HostMode::kOff;
  ArenaSays says;
  if (after != nullptr) says.in_use_plus_1 = static_cast<uint64_t>(after->in_use) + 1;
  if (after != nullptr && compares)
    says.reserved_plus_1 = static_cast<uint64_t>(after->reserved) + 1;
  log_arena_block(arena.number, address, bytes, 0, stack, says, asked);
  if (watches_all_uses()) arena_use_began(arena.number, address, bytes);
}

void arena_block_taken(ArenaObject& arena, uint64_t address) {
  if (is_known(arena)) arena_freed(arena.number, address);
}

void arena_block_returned(ArenaObject& arena, uint64_t address, uint64_t bytes,
                          const ArenaTotals* after) {
  HookScope hook;
  if (!is_known(arena) || !hook.entered() || !recording()) return;
  ArenaSays says;
  if (after != nullptr) says.in_use_plus_1 = static_cast<uint64_t>(after->in_use) + 1;
  log_arena_free(arena.number, address, bytes, says);
}

void arena_request_failed(ArenaObject& arena, uint64_t bytes, const ArenaTotals* before,
                          uint32_t stack, bool jumped) {
  if (!is_known(arena) && !jumped) make_known(arena, 0);
  if (!is_known(arena)) return;
  Refusal refusal{.ask_driver = !jumped};
  if (before != nullptr) {
    refusal.in_use_plus_1 = static_cast<uint64_t>(before->in_use) + 1;
    refusal.reserved_plus_1 = static_cast<uint64_t>(before->reserved) + 1;
    if (before->limit > 0 && before->limit != INT64_MAX)
      refusal.limit_plus_1 = static_cast<uint64_t>(before->limit) + 1;
  }
  arena_refused(arena.number, bytes, refusal, stack);
}

void arena_object_gone(uint64_t object) {
  ArenaObject* const arena = object > kGone ? find(object) : nullptr;
  if (arena == nullptr) return;
  if (is_known(*arena)) arena_event(arena->number, GPUPEAK_ARENA_DESTROYED);
  HookScope hook;
  if (!hook.entered()) return;
  LockGuard guard(g_lock);
  arena->object.store(kGone, std::memory_order_release);
}

void arena_object_give_up(ArenaObject& arena, std::string_view why) {
  const bool known = is_known(arena);
  if (arena.given_up.exchange(true)) return;
  arenas_off(Text<256>(arena.maker->shown, ": ", why));
  if (known) arena_event(arena.number, GPUPEAK_ARENA_DESTROYED);
}

void give_up_arenas_of(const ArenaMaker& maker, std::string_view why) {
  for (ArenaObject& arena : g_arenas) {
    if (arena.object.load(std::memory_order_acquire) > kGone && arena.maker == &maker)
      arena_object_give_up(arena, why);
  }
}

void arenas_on(const ArenaMaker& maker, std::string_view version) {
  add_fact(&maker, maker.fact, version);
}

void arenas_off(std::string_view why) {
  add_fact(&g_facts, "pools.off", why);
}

void say_arenas() {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  LockGuard guard(g_lock);
  for (Fact& fact : g_facts) {
    if (fact.of == nullptr || fact.said_in == generation()) continue;
    fact.said_in = generation();
    define_fact(fact.key, fact.text.view());
  }
}

void reset_arena_objects() {
  g_lock.reset();
  for (ArenaObject& arena : g_arenas) {
    arena.lock.reset();
    arena.apart_now.store(0, std::memory_order_relaxed);
  }
}

}  // namespace gpupeak::preload
