#include "track/last_use.h"

#include <cstring>

#include "base/clock.h"
#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "gpupeak/log_format.h"
#include "log/log.h"
#include "track/device_book.h"
#include "track/graph_uses.h"
#include "track/waiting_index.h"

namespace gpupeak::preload {
namespace {

struct Uses {
  Use* all = nullptr;  ///< reserved for kMostBlocks; place 0 is no block
  /// The largest number used so far; the number of the first free Use, 0: none.
  uint32_t made = 0, free = 0;
  uint64_t left_out = 0;  ///< blocks whose uses are not recorded
  std::atomic<uint64_t> unread_launches{0};
};

constexpr uint32_t kMostBlocks = 1 << 20;

// Under the book's lock.
constinit Uses g_uses;
constinit WaitingIndex g_shared_out;  // blocks that arenas gave
/// By a hash of the address, the block that it lay in when last looked up: most addresses come
/// again and again. A guess is checked against the block, so that no entry has to be removed.
constexpr int kGuessBits = 12;
constinit uint32_t g_guesses[1 << kGuessBits];

uint32_t& guess_of(uint64_t address) {
  return g_guesses[(address >> 9) * 0x9e3779b97f4a7c15u >> (64 - kGuessBits)];
}

Use* take_use() {
  if (g_uses.all == nullptr) return nullptr;
  const uint32_t number = g_uses.free;
  if (number != 0) {
    g_uses.free = static_cast<uint32_t>(g_uses.all[number].id);
    return &g_uses.all[number];
  }
  return g_uses.made + 1 < kMostBlocks ? &g_uses.all[++g_uses.made] : nullptr;
}

uint32_t number_of(const Use& use) {
  return static_cast<uint32_t>(&use - g_uses.all);
}

void give_back(Use& use) {
  use.begin = use.end = 0;
  use.id = g_uses.free;
  g_uses.free = number_of(use);
}

/// Follows a new block. nullptr: another block overlaps, or there is no room. `add` adds it to its
/// index.
template <typename Add>
inline Use* enter(uint64_t address, uint64_t bytes, uint64_t arena, uint64_t id, Add add) {
  Use* const use = take_use();
  if (use == nullptr) return nullptr;
  use->begin = address;
  use->end = address + bytes;
  use->last = use->idle = use->count = 0;
  use->arena = arena;
  use->of_several_streams = use->is_mapping = false;
  use->id = id;
  use->waits_as = 0;
  if (!add(*use)) {
    give_back(*use);
    return nullptr;
  }
  guess_of(address) = number_of(*use);
  return use;
}
Use* enter_at_once(uint64_t address, uint64_t bytes, uint64_t arena) {
  return enter(address, bytes, arena, 0, [](Use& use) { return g_shared_out.add(use); });
}
void leave_out(Use& use) {
  ++g_uses.left_out;
  give_back(use);
}
/// Follows a block of the driver's. nullptr: its uses are not recorded.
Use* follow(uint64_t address, uint64_t bytes, uint64_t id) {
  Use* const use =
      enter(address, bytes, 0, id, [](Use& fresh) { return g_given_addresses.add(fresh); });
  if (use == nullptr) ++g_uses.left_out;
  return use;
}

inline SeenUses seen_of(const Use& use) {
  return {true, use.of_several_streams, use.count, use.first, use.last, use.idle_since, use.idle};
}
/// Logs the uses since the block's last record.
void log_use(Use& use) {
  ThreadSlot* const slot = RecordInPlace::find_slot();
  if (slot == nullptr) return;
  RecordInPlace record(*slot);
  record.u(use.arena).u(use.arena != 0 ? use.begin : use.id).u(use.count);
  if (use.count > 0) seen_of(use).put_times(record);
  record.end(GPUPEAK_REC_USED);
  use.count = use.idle = 0;
}

template <typename Index>
void leave(Index& index, Use& use) {
  index.remove(use);
  give_back(use);
}
template <typename Index>
void end_use(Index& index, Use& use) {
  log_use(use);
  leave(index, use);
}

__attribute__((noinline)) Use* look_up(uint64_t address) {
  if (!g_given_addresses.may_hold(address)) return nullptr;
  Use* use = g_shared_out.find(address);
  if (use == nullptr) use = g_given_addresses.find(address);
  if (use != nullptr) guess_of(address) = number_of(*use);
  return use;
}
inline Use* innermost_at(Use* all, uint64_t address) {
  Use& guess = all[guess_of(address)];
  const bool fits = guess.holds(address) && (guess.arena != 0 || !g_shared_out.may_hold(address));
  return __builtin_expect(fits, 1) ? &guess : look_up(address);
}
/// The arena's block that begins at the address; nullptr: none.
inline Use* shared_out_at(uint64_t arena, uint64_t address) {
  const auto fits = [&](const Use& use) { return use.begin == address && use.arena == arena; };
  Use* const guess = &g_uses.all[guess_of(address)];
  if (__builtin_expect(fits(*guess), 1)) return guess;
  Use* const found = g_shared_out.find(address);
  return found != nullptr && fits(*found) ? found : nullptr;
}

/// Counts a use at the time `now`. All words of a call have the same time, so a block that has more
/// than one of them counts once.
inline __attribute__((always_inline)) void see(Use& use, uint64_t now, CUstream stream) {
  if (use.count == 0) {
    use.first = now;
    if (use.last == 0) {
      use.stream = stream;
      use.last = now;
    }
  } else if (now <= use.last) {
    return;
  }
  if (now > use.last) {
    if (now - use.last > use.idle) {
      use.idle = now - use.last;
      use.idle_since = use.last;
    }
    use.of_several_streams |= use.stream != stream;
    use.last = now;
  }
  ++use.count;
}

}  // namespace

constinit std::atomic<bool> g_watches_uses{false};
constinit AddressIndex g_given_addresses;

void begin_watching_uses() {
  if (!environment().last_use) return;
  if (g_uses.all == nullptr)
    g_uses.all = static_cast<Use*>(reserve_pages(kMostBlocks * sizeof(Use)));
  g_given_addresses.begin(g_uses.all);
  g_shared_out.begin(g_uses.all, leave_out);
  define_fact("last_use", g_uses.all != nullptr ? "on" : "no memory for it");
  g_watches_uses.store(g_uses.all != nullptr, std::memory_order_relaxed);
}

void forget_uses() {
  g_watches_uses.store(false, std::memory_order_relaxed);
  g_uses.all = nullptr;
  g_uses.made = g_uses.free = 0;
  g_uses.left_out = 0;
  g_uses.unread_launches = 0;
  forget_graph_uses();
  g_given_addresses.forget();
  g_shared_out.forget();
}

uint32_t use_began(uint64_t address, uint64_t bytes, uint64_t id) {
  const Use* const use = follow(address, bytes, id);
  return use != nullptr ? number_of(*use) : 0;
}

void use_ended(uint32_t number) {
  if (number != 0 && g_uses.all != nullptr) end_use(g_given_addresses, g_uses.all[number]);
}

void mapped_use_began(uint64_t address, uint64_t bytes, uint64_t id) {
  if (Use* const use = follow(address, bytes, id)) use->is_mapping = true;
}

void mapped_use_ended(uint64_t address) {
  Use* const use = g_given_addresses.find(address);
  if (use != nullptr && use->is_mapping && use->begin == address) end_use(g_given_addresses, *use);
}

namespace {

/// A block begins, but the arena already has one there, or there was no room.
__attribute__((noinline)) void began_again(uint64_t arena, uint64_t address, uint64_t bytes) {
  Use* const known = shared_out_at(arena, address);
  if (known != nullptr && known->end == address + bytes) return;  // it only got another name
  if (known != nullptr) end_use(g_shared_out, *known);
  if (known == nullptr || enter_at_once(address, bytes, arena) == nullptr) ++g_uses.left_out;
}

}  // namespace

void arena_use_began(uint64_t arena, uint64_t address, uint64_t bytes) {
  if (!g_given_addresses.may_hold(address)) return;  // host memory
  const BookGuard guard;
  if (!guard) return;
  if (enter_at_once(address, bytes, arena) == nullptr) began_again(arena, address, bytes);
}

GPUPEAK_HOT void torch_use_began(uint64_t arena, uint64_t address, uint64_t bytes) {
  const BookGuard guard;
  if (!guard) return;
  const Use& guess = g_uses.all[guess_of(address)];
  if (__builtin_expect(guess.begin == address && guess.arena != 0, 0))  // that one's end was missed
    return began_again(arena, address, bytes);
  const auto add = [](Use& use) { return g_shared_out.add_later(use); };
  if (enter(address, bytes, arena, 0, add) == nullptr) began_again(arena, address, bytes);
}

GPUPEAK_HOT SeenUses torch_use_ended(uint64_t arena, uint64_t address) {
  const BookGuard guard;
  if (!guard) return {};
  Use* const use = shared_out_at(arena, address);
  if (use == nullptr) return {};
  const SeenUses seen = seen_of(*use);
  leave(g_shared_out, *use);
  return seen;
}

SeenUses arena_use_ended(uint64_t arena, uint64_t address) {
  return g_given_addresses.may_hold(address) ? torch_use_ended(arena, address) : SeenUses{};
}

void arena_uses_ended(uint64_t arena) {
  if (!watches_uses()) return;
  const BookGuard guard;
  if (!guard) return;
  for (uint32_t number = 1; number <= g_uses.made; ++number) {
    Use& use = g_uses.all[number];
    if (use.end != 0 && use.arena == arena) end_use(g_shared_out, use);
  }
}

void log_all_uses() {
  if (!watches_uses()) return;
  const BookGuard guard;
  if (!guard) return;
  for (uint32_t number = 1; number <= g_uses.made; ++number) {
    if (g_uses.all[number].end != 0) log_use(g_uses.all[number]);
  }
  ThreadSlot* const slot = RecordInPlace::find_slot();
  if (slot == nullptr) return;
  RecordInPlace record(*slot);
  record.u(g_uses.left_out).u(g_uses.unread_launches.load(std::memory_order_relaxed));
  record.end(GPUPEAK_REC_USES_END);
}

inline __attribute__((always_inline)) void see_all(CUstream stream, const uint64_t* words,
                                                   size_t count) {
  const uint64_t now = ticks();
  Use* const all = g_uses.all;
  for (size_t i = 0; i < count; ++i) {
    if (Use* const use = innermost_at(all, words[i])) see(*use, now, stream);
  }
}

void use_in_book(CUstream stream, const uint64_t* words, size_t count) {
  see_all(stream, words, count);
}

GPUPEAK_HOT void use_now(void* stream, const uint64_t* words, size_t count) {
  HookScope scope;
  if (!scope.entered() || !recording()) return;
  const BookGuard guard;
  if (!guard) return;
  see_all(static_cast<CUstream>(stream), words, count);
}

void note_unread_launch() {
  g_uses.unread_launches.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace gpupeak::preload
