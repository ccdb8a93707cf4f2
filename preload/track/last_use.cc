#include "track/last_use.h"

#include <algorithm>

#include "base/clock.h"
#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "log/log.h"
#include "track/device_book.h"
#include "track/graph_uses.h"
#include "track/limit.h"

namespace gpupeak::preload {
namespace {

// What blocks are used for.

struct Role {
  Way way = 0;
  uint64_t count = 0, logged = 0;  ///< uses; how many of them the log has
  uint32_t next = 0;               ///< the block's next role, or the next free one; 0: none
};
constexpr uint32_t kMostRoles = 1 << 20;
/// A block that has more is memory that somebody else shares out.
constexpr uint32_t kMostOfBlock = 48;

struct Roles {
  Role* all = nullptr;  ///< reserved for kMostRoles; place 0 is no role
  uint32_t made = 0, free = 0;
  uint32_t kernels = 0;
};
constinit Roles g_roles;  // under the book's lock
constinit std::atomic<bool> g_has_left_out{false};

uint32_t take_role() {
  if (g_roles.all == nullptr) {
    g_roles.all = static_cast<Role*>(reserve_pages(kMostRoles * sizeof(Role)));
    if (g_roles.all == nullptr) return 0;
  }
  const uint32_t number = g_roles.free;
  if (number == 0) return g_roles.made + 1 < kMostRoles ? ++g_roles.made : 0;
  g_roles.free = g_roles.all[number].next;
  return number;
}

void log_role(const Use& use, Role& role) {
  RecordInPlace record;
  if (!record) return;
  record.u(use.arena).u(use.arena != 0 ? use.begin : use.id).u(role.way >> 16);
  record.u(role.way & 0xffff).u(role.count).end(GPUPEAK_REC_ROLE);
  role.logged = role.count;
}

__attribute__((noinline)) void add_role(Use& use, Way way, uint64_t times) {
  const uint32_t number = use.role_count < kMostOfBlock ? take_role() : 0;
  if (number == 0) return note_left_out_launch();
  Role& role = g_roles.all[number];
  role = {way, times, 0, use.roles};
  use.roles = number;
  ++use.role_count;
  log_role(use, role);
}

/// Counts `times` uses of the block.
void note_role(Use& use, Way way, uint64_t times) {
  if (way == 0) return;
  uint32_t before = 0;
  for (uint32_t number = use.roles; number != 0;) {
    Role& role = g_roles.all[number];
    if (role.way != way) {
      before = number;
      number = role.next;
      continue;
    }
    role.count += times;
    if (before != 0) {  // what comes again stands first
      g_roles.all[before].next = role.next;
      role.next = use.roles;
      use.roles = number;
    }
    return;
  }
  add_role(use, way, times);
}

/// Logs the roles that have come again since they were logged.
void log_roles(const Use& use) {
  for (uint32_t number = use.roles; number != 0; number = g_roles.all[number].next) {
    Role& role = g_roles.all[number];
    if (role.count != role.logged) log_role(use, role);
  }
}

/// The block is gone, and its roles have been logged.
void give_roles_back(Use& use) {
  while (use.roles != 0) {
    Role& role = g_roles.all[use.roles];
    const uint32_t next = role.next;
    role.next = g_roles.free;
    g_roles.free = use.roles;
    use.roles = next;
  }
  use.role_count = 0;
}

// When blocks are used.

/// The uses of this block are not recorded.
void leave_out(Use& use);

/// An AddressIndex for blocks that come and go between two launches: those of PyTorch's allocator.
/// New blocks wait outside of the index until find() or add() is called, or until too many wait.
/// Most blocks are found by the caller's guess and freed before that, so they never enter the
/// index. The caller holds a lock.
///
/// While a block waits, the index does not know that its addresses are taken. So blocks may wait
/// only if they never overlap each other, and only while no block of another kind is there.
class WaitingIndex {
 public:
  void begin(Use* all) {
    all_ = all;
    index_.begin(all);
  }
  /// Adds a block that may not wait. False: there is no room, or another block overlaps.
  bool add(Use& block) {
    enter_all();
    if (!index_.add(block)) return false;
    block.may_wait = false;
    ++others_;
    return true;
  }
  /// Adds a block that may wait.
  bool add_later(Use& block) {
    if (__builtin_expect(others_ > 0 || count_ == kMost, 0)) {
      enter_all();
      if (!index_.add(block)) return false;
    } else {
      lowest_ = std::min(lowest_, block.begin);
      highest_ = std::max(highest_, block.end);
      numbers_[count_] = static_cast<uint32_t>(&block - all_);
      block.waits_as = ++count_;
    }
    block.may_wait = true;
    return true;
  }
  void remove(Use& block) {
    const auto number = static_cast<uint32_t>(&block - all_);
    const uint32_t place = block.waits_as;  // may be no place, after a jump out of a change
    block.waits_as = 0;
    if (__builtin_expect(place - 1 < count_ && numbers_[place - 1] == number, 1)) {
      const uint32_t last = numbers_[--count_];
      if (last == number) return;
      numbers_[place - 1] = last;
      all_[last].waits_as = place;
      return;
    }
    others_ -= block.may_wait ? 0 : 1;
    index_.remove(block);
  }
  Use* find(uint64_t address) {
    enter_all();
    return index_.find(address);
  }
  /// Whether a block may lie at the address.
  bool may_hold(uint64_t address) const {
    return (count_ > 0 && address >= lowest_ && address < highest_) || index_.may_hold(address);
  }
  /// In a forked child.
  void forget() {
    index_.forget();
    count_ = others_ = 0;
  }

 private:
  static constexpr uint32_t kMost = 512;

  void enter_all() {
    if (count_ > 0) enter_those_that_wait();
  }
  /// After a jump out of a change `numbers_` may have a number twice, or the number of a block that
  /// is gone: then `waits_as` does not fit.
  __attribute__((noinline)) void enter_those_that_wait() {
    for (uint32_t place = 0; place < count_; ++place) {
      Use& block = all_[numbers_[place]];
      if (block.waits_as != place + 1) continue;
      block.waits_as = 0;
      if (!index_.add(block)) leave_out(block);
    }
    count_ = 0;
    lowest_ = UINT64_MAX;
    highest_ = 0;
  }

  AddressIndex index_;
  Use* all_ = nullptr;
  uint32_t others_ = 0;                         ///< blocks in the index that may not wait
  uint32_t count_ = 0;                          ///< blocks that wait
  uint64_t lowest_ = UINT64_MAX, highest_ = 0;  ///< the blocks that wait lie between these
  uint32_t numbers_[kMost] = {};                ///< the blocks that wait
};

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

/// Reserves room for blocks when there is the first one, since most processes have none.
bool has_room() {
  if (g_uses.all != nullptr) return true;
  g_uses.all = static_cast<Use*>(reserve_pages(kMostBlocks * sizeof(Use)));
  g_given_addresses.begin(g_uses.all);
  g_shared_out.begin(g_uses.all);
  return g_uses.all != nullptr;
}

Use* take_use() {
  if (!has_room()) return nullptr;
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
  give_roles_back(use);
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
  *use = {.begin = address, .end = address + bytes, .arena = arena, .id = id};
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
  log_roles(use);
  if (use.has_hidden_uses) return;
  RecordInPlace record;
  if (!record) return;
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
/// than one of them counts once: for the others it is false.
inline __attribute__((always_inline)) bool see(Use& use, uint64_t now, CUstream stream) {
  if (use.count == 0) {
    use.first = now;
    if (use.last == 0) {
      use.stream = stream;
      use.last = now;
    }
  } else if (now <= use.last) {
    return false;
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
  return true;
}

/// A block begins, but the arena already has one there, or there was no room.
__attribute__((noinline)) void began_again(uint64_t arena, uint64_t address, uint64_t bytes) {
  Use* const known = shared_out_at(arena, address);
  if (known != nullptr && known->end == address + bytes) return;  // it only got another name
  if (known != nullptr) end_use(g_shared_out, *known);
  if (known == nullptr || enter_at_once(address, bytes, arena) == nullptr) ++g_uses.left_out;
}

}  // namespace

constinit std::atomic<bool> g_watches_uses{false}, g_watches_all_uses{false};
constinit AddressIndex g_given_addresses;

void begin_watching_uses() {
  if (environment().uses == UseRecording::kOff) return;
  // A run with a limit is to be as on a smaller card, to the byte: nothing more is asked of the
  // driver there than the limit needs.
  if (environment().uses == UseRecording::kRoles && has_limits()) return;
  const bool all = environment().uses == UseRecording::kAll;
  define_fact("roles", "on");
  if (all) define_fact("last_use", "on");
  g_launch_budget.begin();
  g_watches_all_uses.store(all, std::memory_order_relaxed);
  g_watches_uses.store(true, std::memory_order_relaxed);
}

void forget_uses() {
  g_watches_uses.store(false, std::memory_order_relaxed);
  g_watches_all_uses.store(false, std::memory_order_relaxed);
  g_roles = {};
  g_has_left_out.store(false, std::memory_order_relaxed);
  begin_anew(g_uses);
  forget_graph_uses();
  g_given_addresses.forget();
  g_shared_out.forget();
}

uint32_t use_began(uint64_t address, uint64_t bytes, uint64_t id, bool is_host) {
  Use* const use = follow(address, bytes, id);
  if (use == nullptr) return 0;
  use->is_host = is_host;
  return number_of(*use);
}

uint32_t array_use_began(uint64_t id) {
  Use* const use = enter(1, 0, 0, id, [](Use&) { return true; });
  if (use == nullptr) {
    ++g_uses.left_out;
    return 0;
  }
  use->is_array = true;
  return number_of(*use);
}

void use_ended(uint32_t number) {
  if (number == 0 || g_uses.all == nullptr) return;
  Use& use = g_uses.all[number];
  if (!use.is_array) return end_use(g_given_addresses, use);
  log_use(use);
  give_back(use);
}

void mapped_use_began(uint64_t address, uint64_t bytes, uint64_t id) {
  if (Use* const use = follow(address, bytes, id)) use->is_mapping = true;
}

void mapped_use_ended(uint64_t address) {
  Use* const use = g_given_addresses.find(address);
  if (use != nullptr && use->is_mapping && use->begin == address) end_use(g_given_addresses, *use);
}

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
  const SeenUses seen = use->has_hidden_uses ? SeenUses{} : seen_of(*use);
  log_roles(*use);
  leave(g_shared_out, *use);
  return seen;
}

SeenUses arena_use_ended(uint64_t arena, uint64_t address) {
  return g_given_addresses.may_hold(address) ? torch_use_ended(arena, address) : SeenUses{};
}

void arena_uses_ended(uint64_t arena) {
  if (!watches_all_uses()) return;
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
  emit(Record{GPUPEAK_REC_USES_END, g_uses.left_out,
              g_uses.unread_launches.load(std::memory_order_relaxed)});
}

void use_in_book(CUstream stream, uint64_t now, const SeenWord& seen, uint64_t times) {
  Use* const use = innermost_at(g_uses.all, seen.word);
  if (use == nullptr) return;
  see(*use, now, stream);
  note_role(*use, seen.way & ~kCountsNot, (seen.way & kCountsNot) == 0 ? times : 0);
}

uint32_t block_at(uint64_t address) {
  const Use* const use = innermost_at(g_uses.all, address);
  return use != nullptr ? number_of(*use) : 0;
}

GPUPEAK_HOT void use_now(void* stream, const SeenWord* words, size_t count) {
  if (!recording()) return;
  const InBook book;
  if (!book) return;
  const uint64_t now = ticks();
  Use* const all = g_uses.all;
  for (size_t i = 0; i < count; ++i) {
    Use* const use = innermost_at(all, words[i].word);
    if (use == nullptr) continue;
    if (__builtin_expect(words[i].way == GPUPEAK_ROLE_ADDRESS_COPIED, 0)) {
      if (words[i].word != use->begin) continue;  // any number may lie within a large block
      use->has_hidden_uses = true;
      note_role(*use, words[i].way, 1);
      continue;
    }
    const bool counts = see(*use, now, static_cast<CUstream>(stream));
    // Each address of a copy counts, but a launch counts once.
    note_role(*use, words[i].way, counts || words[i].way <= UINT16_MAX ? 1 : 0);
  }
}

bool is_on_device(uint64_t address) {
  if (g_given_addresses.may_hold(address)) {
    const InBook book;
    if (!book) return true;
    const Use* const use = innermost_at(g_uses.all, address);
    if (use != nullptr) return !use->is_host;
  }
  return device_at(address) != kNoDevice;
}

void array_used(CUarray array, gpupeak_role role, CUstream stream) {
  if (!recording()) return;
  const InBook book;
  if (!book || g_uses.all == nullptr) return;
  const DeviceBlock* const block =
      g_book.blocks.find(key_of(KeySpace::kArray, reinterpret_cast<uint64_t>(array)));
  if (block == nullptr || block->use == 0) return;
  Use& use = g_uses.all[block->use];
  see(use, ticks(), stream);
  note_role(use, way_of(0, role), 1);
}

void note_unread_launch() {
  g_uses.unread_launches.fetch_add(1, std::memory_order_relaxed);
  note_left_out_launch();
}

constinit LaunchBudget g_launch_budget;

uint32_t define_kernel(uint32_t name, uint32_t stack) {
  RecordInPlace record;
  if (!record) return 0;
  const uint32_t number = ++g_roles.kernels;
  record.u(number).u(name).u(stack).end(GPUPEAK_REC_KERNEL);
  return number;
}

void note_left_out_launch() {
  if (g_has_left_out.load(std::memory_order_relaxed)) return;
  if (g_has_left_out.exchange(true, std::memory_order_relaxed)) return;
  HookScope scope;
  if (recording()) define_fact("launches", "not all");
}

void LaunchBudget::begin() {
  looks_.store(0, std::memory_order_relaxed);
  skips_.store(0, std::memory_order_relaxed);
  spent_ns_.store(0, std::memory_order_relaxed);
  start_ns_.store(monotonic_ns(), std::memory_order_relaxed);
}

bool LaunchBudget::get_more() {
  constexpr uint64_t kPart = 100;    // of the time since the start
  constexpr uint64_t kLookNs = 200;  // what a look takes, with some addresses of blocks
  constexpr uint64_t kMost = 4096;
  constexpr uint32_t kSkips = 64;  // so that the clock is seldom read
  const uint64_t allowed = (monotonic_ns() - start_ns_.load(std::memory_order_relaxed)) / kPart;
  const uint64_t spent = spent_ns_.load(std::memory_order_relaxed);
  const uint64_t looks = allowed > spent ? std::min((allowed - spent) / kLookNs, kMost) : 0;
  if (looks == 0) {
    skips_.store(kSkips, std::memory_order_relaxed);
    note_left_out_launch();
    return false;
  }
  spent_ns_.store(spent + looks * kLookNs, std::memory_order_relaxed);
  looks_.store(static_cast<uint32_t>(looks) - 1, std::memory_order_relaxed);
  return true;
}

}  // namespace gpupeak::preload
