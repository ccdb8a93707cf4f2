#include "track/last_use.h"

#include <cstring>

#include "base/clock.h"
#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "gpupeak/log_format.h"
#include "log/log.h"
#include "thread/record_in_place.h"
#include "track/device_book.h"
#include "track/graph_uses.h"

namespace gpupeak::preload {
namespace {

/// Of a live block. Times in ticks.
struct Use {
  uint64_t begin = 0, end = 0;  ///< addresses; both 0: no block
  uint64_t arena = 0;           ///< 0: of the driver's
  uint64_t id = 0;              ///< of the driver's block; of one that is not there: the next such
  uint64_t first = 0, last = 0;
  uint64_t idle_since = 0, idle = 0;  ///< the longest while between two uses
  uint64_t count = 0;
  CUstream stream = nullptr;
  bool of_several_streams = false;
  bool is_mapping = false;
};

struct Uses {
  Use* all = nullptr;  ///< reserved; 0 is none
  uint32_t made = 0, free = 0;
  uint64_t left_out = 0;  ///< blocks that are not followed
  std::atomic<uint64_t> unread_launches{0};
};

constexpr uint32_t kMostBlocks = 1 << 20;

constinit Uses g_uses;                // under the book's lock
constinit AddressIndex g_shared_out;  // what arenas gave, under the book's lock

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

/// 0: another one overlaps, or there is no room.
uint32_t enter(AddressIndex& index, const Use& as) {
  Use* const use = take_use();
  if (use == nullptr) return 0;
  *use = as;
  if (index.add(as.begin, as.end - as.begin, number_of(*use))) return number_of(*use);
  give_back(*use);
  return 0;
}

uint32_t add(AddressIndex& index, const Use& as) {
  const uint32_t number = enter(index, as);
  if (number == 0) ++g_uses.left_out;
  return number;
}

/// What has been seen since its record before; times count from there on.
void log_use(Use& use) {
  ThreadSlot* const slot = RecordInPlace::find_slot();
  if (slot == nullptr) return;
  RecordInPlace record(*slot);
  const bool is_used = use.count > 0;
  const auto ago = [&](uint64_t time) { return record.time() - time; };
  record.u(use.arena).u(use.arena != 0 ? use.begin : use.id).u(use.count);
  record.u(is_used ? ago(use.first) : 0).u(is_used ? ago(use.last) : 0);
  record.u(use.idle).u(use.idle > 0 ? ago(use.idle_since) : 0);
  record.u(!is_used ? 0 : use.of_several_streams ? 2 : 1).end(GPUPEAK_REC_USED);
  use.count = use.idle = 0;
}

void end_use(AddressIndex& index, Use& use) {
  log_use(use);
  index.remove(use.begin, use.end - use.begin, number_of(use));
  give_back(use);
}

/// The block of the number, if the address lies in it: what a jump left may say otherwise.
Use* holding(uint32_t number, uint64_t address) {
  if (number == 0) return nullptr;
  Use& use = g_uses.all[number];
  return address >= use.begin && address < use.end ? &use : nullptr;
}
Use* innermost_at(uint64_t address) {
  Use* const shared_out = holding(g_shared_out.find(address), address);
  return shared_out != nullptr ? shared_out : holding(g_given_addresses.find(address), address);
}

/// Once a call, whose words all have its time.
void see(Use& use, uint64_t now, CUstream stream) {
  if (use.last == 0) {
    use.stream = stream;
  } else if (now > use.last) {
    if (now - use.last > use.idle) {
      use.idle = now - use.last;
      use.idle_since = use.last;
    }
    use.of_several_streams |= use.stream != stream;
  } else if (use.count > 0) {
    return;
  }
  if (use.count == 0) use.first = now;
  use.last = now;
  ++use.count;
}

}  // namespace

constinit std::atomic<bool> g_watches_uses{false};
constinit AddressIndex g_given_addresses;

void begin_watching_uses() {
  if (!environment().last_use) return;
  if (g_uses.all == nullptr)
    g_uses.all = static_cast<Use*>(reserve_pages(kMostBlocks * sizeof(Use)));
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
  return add(g_given_addresses, {.begin = address, .end = address + bytes, .id = id});
}

void use_ended(uint32_t number) {
  if (number != 0 && g_uses.all != nullptr) end_use(g_given_addresses, g_uses.all[number]);
}

void mapped_use_began(uint64_t address, uint64_t bytes, uint64_t id) {
  add(g_given_addresses, {.begin = address, .end = address + bytes, .id = id, .is_mapping = true});
}

void mapped_use_ended(uint64_t address) {
  Use* const use = holding(g_given_addresses.find(address), address);
  if (use != nullptr && use->is_mapping && use->begin == address) end_use(g_given_addresses, *use);
}

void arena_use_began(uint64_t arena, uint64_t address, uint64_t bytes) {
  if (!watches_uses() || !g_given_addresses.may_hold(address)) return;  // else it is of the host
  const BookGuard guard;
  if (!guard) return;
  const Use use{.begin = address, .end = address + bytes, .arena = arena};
  if (enter(g_shared_out, use) != 0) return;
  Use* const known = holding(g_shared_out.find(address), address);
  if (known == nullptr || known->begin != address || known->arena != arena) {
    ++g_uses.left_out;
  } else if (known->end != use.end) {  // else it only has another name now
    end_use(g_shared_out, *known);
    add(g_shared_out, use);
  }
}

void arena_use_ended(uint64_t arena, uint64_t address) {
  if (!watches_uses() || !g_given_addresses.may_hold(address)) return;
  const BookGuard guard;
  if (!guard) return;
  Use* const use = holding(g_shared_out.find(address), address);
  if (use != nullptr && use->begin == address && use->arena == arena) end_use(g_shared_out, *use);
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

void use_in_book(CUstream stream, const uint64_t* words, size_t count) {
  const uint64_t now = ticks();
  for (size_t i = 0; i < count; ++i) {
    if (Use* const use = innermost_at(words[i])) see(*use, now, stream);
  }
}

void use_now(void* stream, const uint64_t* words, size_t count) {
  HookScope scope;
  if (!scope.entered() || !recording()) return;
  const BookGuard guard;
  if (!guard) return;
  use_in_book(static_cast<CUstream>(stream), words, count);
}

void note_unread_launch() {
  g_uses.unread_launches.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace gpupeak::preload
