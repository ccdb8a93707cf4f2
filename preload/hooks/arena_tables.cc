#include "hooks/arena_tables.h"

#include <algorithm>
#include <atomic>

#include "base/copied_memory.h"
#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/kept_errno.h"
#include "base/lock.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "hooks/adapters.h"

namespace gpupeak::preload {

// The replaced functions of each class of each loaded library. arena_thunks_*.S has the thunks in
// their place.

/// What the thunks of arena_thunks_*.S save: the caller's registers. It lies right below the
/// caller's frame on the stack.
struct ArenaCall {
  /// x86: rdi, rsi, rdx (which holds a result after the call), rcx, r8, r9. aarch64: x0 to x5.
  uint64_t arguments[6];
#if defined(__aarch64__)
  uint64_t x6, x7, x8;
#endif
  uint64_t which;   ///< table * kArenaFunctions + function
  uint64_t result;  ///< rax, before the call and after it; x0 after it
#if defined(__aarch64__)
  uint64_t second_result;  ///< x1 after the call
#endif
  uint8_t vectors[128];
  uint64_t frame_pointer, return_address;  ///< the caller's
};

/// A table of functions. Its place in g_arena_tables says which thunks are its own, so that a call
/// finds its real function whatever its arguments are.
struct ArenaFunctions {
  /// The slots of a class, or the code of kArenaAlloc for functions of no class. 0: a free place.
  std::atomic<uintptr_t> at{0};
  bool has_slots = false;
  const ArenaClass* of = nullptr;
  uintptr_t real[kArenaFunctions] = {};
  uintptr_t statistics = 0, block_size = 0;
  std::atomic<bool> proven{false};  ///< the statistics agreed with a request
  std::atomic<bool> off{false};     ///< they did not: its calls are not noted any more
};
constexpr size_t kMostArenaTables = 16;  // arena_thunks_*.S has thunks for so many
extern "C" const uintptr_t gpupeak_arena_thunks[kMostArenaTables][kArenaFunctions];

struct ArenaStep {
  uintptr_t real;
  uint64_t comes_back;  ///< 0: the thunk jumps to the real function; else it calls that
};
extern "C" ArenaStep gpupeak_arena_before(ArenaCall* call);
extern "C" void gpupeak_arena_after(ArenaCall* call);
/// The thunks' personality routine (C++ calls it so): an exception passes the thunk.
extern "C" int gpupeak_arena_left(int version, int actions, uint64_t exception_class,
                                  void* exception, void* context);

namespace {

constinit ArenaFunctions g_arena_tables[kMostArenaTables];

constinit FutexLock g_writing;      // one lock for all, since tables share pages
constinit int g_call_filters = -1;  // call_filters() when a table was last taken over

uintptr_t* slots_of(const ArenaFunctions& table) {
  return reinterpret_cast<uintptr_t*>(table.at.load(std::memory_order_acquire));
}

/// Whether the slots hold our thunks. If another library is loaded there now, they hold that
/// library's functions.
bool is_taken(const ArenaFunctions& table, size_t place) {
  return slots_of(table)[table.of->slot[kArenaAlloc]] == gpupeak_arena_thunks[place][kArenaAlloc];
}

/// Puts back the functions of one table; not if the program has a new filter of system calls, which
/// might kill it for making a page writable.
void put_back(ArenaFunctions& table) {
  uintptr_t* const slots = slots_of(table);
  if (slots == nullptr || !table.has_slots || call_filters() != g_call_filters) return;
  for (size_t i = 0; i < kArenaFunctions; ++i) {
    const size_t slot = table.of->slot[i];
    if (slot != kNoSlot && slots[slot] != table.real[i]) replace_slot(slots + slot, table.real[i]);
  }
}

/// The place of the table with this `at`; kMostArenaTables: none.
size_t place_of(uintptr_t at) {
  size_t place = 0;
  while (place < kMostArenaTables &&
         g_arena_tables[place].at.load(std::memory_order_relaxed) != at) {
    ++place;
  }
  return place;
}

ArenaFunctions& begin_table(size_t place, const ArenaClass& of) {
  ArenaFunctions& table = g_arena_tables[place];
  table.of = &of;
  table.proven.store(false, std::memory_order_relaxed);
  table.off.store(false, std::memory_order_relaxed);
  return table;
}

bool take_over(const ArenaClass& of, const VirtualTable& found) {
  size_t place = place_of(reinterpret_cast<uintptr_t>(found.slots));
  if (place < kMostArenaTables && is_taken(g_arena_tables[place], place)) return true;
  if (place == kMostArenaTables) place = place_of(0);
  if (place == kMostArenaTables) return false;
  ArenaFunctions& table = begin_table(place, of);
  for (size_t i = 0; i < kArenaFunctions; ++i)
    table.real[i] = of.slot[i] == kNoSlot ? 0 : found.slots[of.slot[i]];
  table.statistics = of.statistics == kNoSlot ? 0 : found.slots[of.statistics];
  table.block_size = of.block_size == kNoSlot ? 0 : found.slots[of.block_size];
  table.has_slots = true;
  table.at.store(reinterpret_cast<uintptr_t>(found.slots), std::memory_order_release);
  for (size_t i = 0; i < kArenaFunctions; ++i) {
    if (of.slot[i] == kNoSlot) continue;
    if (!replace_slot(found.slots + of.slot[i], gpupeak_arena_thunks[place][i])) {
      put_back(table);
      return false;
    }
  }
  return true;
}

void forget_unloaded() {
  for (ArenaFunctions& table : g_arena_tables) {
    const uintptr_t at = table.at.load(std::memory_order_acquire);
    if (at != 0 && data_end(reinterpret_cast<const void*>(at)) == nullptr)
      table.at.store(0, std::memory_order_release);
  }
}

/// At our end, or if they turn out not to be an arena's.
void put_back_arena_table(ArenaFunctions& table) {
  if (table.at.load(std::memory_order_acquire) == 0) return;  // so in most programs
  HookScope hook;
  if (!hook.entered()) return;
  LockGuard guard(g_writing);
  put_back(table);
}

void put_back_all() {
  forget_unloaded();
  for (ArenaFunctions& table : g_arena_tables) put_back_arena_table(table);
}

// Notes calls of arenas, as the thunks of arena_thunks_*.S report them. An arena rounds sizes, and
// may hand out more than was asked for. So the size of a block is what the arena's own statistics
// grow by. For that an arena's calls must be made one after the other, which the arena's own lock
// makes them do anyway. XLA's arena may release that lock and wait until another thread gives a
// block back. Calls that come meanwhile soon go on without our lock ("apart"), and statistics are
// not read then. For an arena without statistics the size is what was asked for, or what it writes
// beside the block.

ArenaTotals totals_of(const ArenaFunctions& table, uint64_t object) {
  return table.of->totals(table.statistics, object);
}

bool keeps_statistics(const ArenaFunctions& table) {
  return table.of->totals != nullptr;
}

bool gives(uint64_t function) {
  return function <= kArenaReserve;
}

/// A call of an arena that is under way. It does not lie in the thunk's frame, which may be gone.
struct Call {
  const ArenaCall* at = nullptr;
  ArenaFunctions* table = nullptr;
  ArenaObject* arena = nullptr;
  uint64_t function = 0, object = 0;
  uint64_t argument = 0;  ///< bytes that are asked for, or the block that is given back
  uint64_t given = 0;     ///< where the arena writes how many bytes it handed out; 0: nowhere
  uint32_t stack = 0;
  ArenaTotals before{};
  bool apart = false;        ///< it goes on without ArenaObject::lock
  uint64_t other_calls = 0;  ///< ArenaObject::apart_calls when this call began
  uint64_t block_bytes = 0;  ///< size of the block that is given back, if the arena was asked
};
/// A thread's calls that are under way, innermost last.
struct Calls {
  static constexpr uint32_t kMost = 4;
  uint32_t count = 0;
  Call open[kMost] = {};
};
constinit thread_local Calls t_calls __attribute__((tls_model("initial-exec")));

void refused(const Call& call, bool jumped) {
  if (!gives(call.function) || call.argument == 0) return;
  const ArenaTotals* const before = keeps_statistics(*call.table) ? &call.before : nullptr;
  arena_request_failed(*call.arena, call.argument, before, call.stack, jumped);
}

void finish(const Call& call) {
  if (!keeps_statistics(*call.table)) return;
  if (call.apart) {
    call.arena->apart_now.fetch_sub(1);
  } else {
    call.arena->lock.unlock();
  }
}

/// Whether no other thread has used the arena since the call began.
bool was_alone(const Call& call) {
  return !call.apart && call.arena->apart_now.load() == 0 &&
         call.arena->apart_calls.load() == call.other_calls;
}

uint64_t block_bytes(const Call& call, uint64_t address) {
  return reinterpret_cast<size_t (*)(uint64_t, uint64_t)>(call.table->block_size)(call.object,
                                                                                  address);
}

/// Ends the innermost call, which an exception or a jump has left without a result.
void leave_last(bool jumped) {
  const Call call = t_calls.open[--t_calls.count];
  t_flags.arena_calls = t_calls.count;
  refused(call, jumped);
  finish(call);
}

/// Whether the innermost call was left without any hook of ours noticing: then its frame lies at or
/// below the stack pointer.
bool leaves_last(uintptr_t stack_pointer) {
  return t_calls.count > 0 &&
         reinterpret_cast<uintptr_t>(t_calls.open[t_calls.count - 1].at) <= stack_pointer;
}

/// The statistics do not agree. Until a request has proved them, they may be something else: then
/// all of this class is put back. Later only this arena is given up.
void disbelieve(const Call& call) {
  constexpr const char* kWhy = "the statistics of an arena do not bear out what was seen of it";
  if (call.table->proven.load(std::memory_order_relaxed)) {
    arena_object_give_up(*call.arena, kWhy);
  } else {
    call.table->off.store(true, std::memory_order_relaxed);
    put_back_arena_table(*call.table);
    give_up_arenas_of(*call.table->of->maker, kWhy);
  }
}

/// Whether the statistics agree with the call: one request more, and at least as many bytes as were
/// asked for. If the arena can be asked for the block's size, exactly so many bytes.
bool bears_out(const Call& call, const ArenaTotals& after, uint64_t address) {
  const int64_t grown = after.in_use - call.before.in_use;
  if (call.before.in_use < 0 || after.reserved < after.in_use ||
      grown < static_cast<int64_t>(call.argument)) {
    return false;
  }
  if (call.table->block_size != 0)
    return static_cast<uint64_t>(grown) == block_bytes(call, address);
  const int64_t requests = after.requests - call.before.requests;
  return requests >= 1 && requests <= 2;  // a reservation counts once or twice
}

/// Notes a block of an arena without statistics.
void note_plain_block(const Call& call, uint64_t address) {
  constexpr uint64_t kMost = UINT64_C(1) << 40;  // an address is larger
  uint64_t bytes = call.argument;
  if (call.given != 0 && (!copy_word(call.given, bytes) || bytes < call.argument || bytes >= kMost))
    return arena_object_give_up(*call.arena, "the size that it gives is not where the rule says");
  arena_block_given(*call.arena, address, bytes, call.argument, nullptr, call.stack);
}

void note_block(const Call& call, uint64_t address) {
  const bool proven = call.table->proven.load(std::memory_order_relaxed);
  if (!was_alone(call)) {
    if (!proven) return disbelieve(call);
    return arena_block_given(*call.arena, address, block_bytes(call, address), call.argument,
                             nullptr, call.stack);
  }
  const ArenaTotals after = totals_of(*call.table, call.object);
  if (!bears_out(call, after, address)) return disbelieve(call);
  call.table->proven.store(true, std::memory_order_relaxed);
  arena_block_given(*call.arena, address, static_cast<uint64_t>(after.in_use - call.before.in_use),
                    call.argument, &after, call.stack);
}

void note_return(const Call& call) {
  if (!was_alone(call)) {
    if (call.block_bytes != 0)
      arena_block_returned(*call.arena, call.argument, call.block_bytes, nullptr);
    return;
  }
  const ArenaTotals after = totals_of(*call.table, call.object);
  arena_block_returned(*call.arena, call.argument,
                       static_cast<uint64_t>(call.before.in_use - after.in_use), &after);
}

/// False: the call is not noted.
bool begin(Call& call) {
  if (!gives(call.function)) {
    if (!call.arena->has_older) {
      arena_block_taken(*call.arena, call.argument);
      return true;
    }
    call.before = totals_of(*call.table, call.object);
    if (call.table->block_size != 0) call.block_bytes = block_bytes(call, call.argument);
    return true;
  }
  if (!keeps_statistics(*call.table)) {
    if (!call.arena->lock.lock()) return false;
    arena_requested(*call.arena, {});
    call.arena->lock.unlock();
    return true;
  }
  call.before = totals_of(*call.table, call.object);
  if (call.before.requests < 0) {
    disbelieve(call);
    return false;
  }
  arena_requested(*call.arena, call.before);
  return true;
}

/// Takes the arena's lock, or goes on without it. False: the arena was given up.
bool enter(Call& call) {
  if (!keeps_statistics(*call.table)) return true;
  ArenaObject& arena = *call.arena;
  if (call.table->block_size == 0) {
    if (arena.lock.lock()) return true;
    arena_object_give_up(arena, "a call of an arena kept another waiting for seconds");
    return false;
  }
  // If the lock cannot be had, its holder waits for memory. Once a call knows that, the next calls
  // need not wait for the lock.
  const bool others_went_on = arena.apart_now.load() > 0;
  call.apart = !arena.lock.lock(others_went_on ? 0 : 1);
  if (call.apart) {
    arena.apart_now.fetch_add(1);
    arena.apart_calls.fetch_add(1);
  }
  call.other_calls = arena.apart_calls.load();
  return true;
}

/// Whether the call is noted, so that its result is needed.
bool begin(ArenaFunctions& table, uint64_t function, const ArenaCall* at) {
  if (!recording() || table.off.load(std::memory_order_relaxed)) return false;
  while (leaves_last(reinterpret_cast<uintptr_t>(at))) leave_last(true);
  const ArenaClass& of = *table.of;
  const uint64_t object = of.object_at == kNoArgument ? reinterpret_cast<uint64_t>(&table)
                                                      : at->arguments[of.object_at];
  // A call inside another call of the same arena belongs to the same request.
  const bool is_inside = std::any_of(t_calls.open, t_calls.open + t_calls.count,
                                     [object](const Call& call) { return call.object == object; });
  if (is_inside || t_calls.count == Calls::kMost) return false;
  if (function >= kArenaDestroy) {
    arena_object_gone(object);
    return false;
  }
  const uint64_t argument = at->arguments[gives(function) ? of.size_at : of.address_at];
  if (argument == 0 && (!gives(function) || keeps_statistics(table)))
    return false;  // no bytes, no block
  const uint64_t given = of.given_at == kNoArgument ? 0 : at->arguments[of.given_at];
  ArenaObject* const arena = arena_object_of(object, *of.maker);
  if (arena == nullptr) return false;
  const CallerFrame caller{at->return_address, reinterpret_cast<uintptr_t>(&at->return_address + 1),
                           at->frame_pointer};
  const uint32_t stack = gives(function) ? arena_call_site(caller) : 0;
  Call call{at, &table, arena, function, object, argument, given, stack};
  if (!enter(call)) return false;
  if (!begin(call)) {
    finish(call);
    return false;
  }
  t_calls.open[t_calls.count++] = call;
  t_flags.arena_calls = t_calls.count;
  return true;
}

/// longjmp is about to make `target` the stack pointer. The calls that the jump leaves are over.
void leave_arena_calls_for(uintptr_t target) {
  if (!leaves_last(target) || is_within_handler(target)) return;
  while (leaves_last(target)) leave_last(true);
}

}  // namespace

bool take_over_arena_tables(const ArenaClass& of, const VirtualTable* tables, size_t count) {
  HookScope hook;
  if (!hook.entered()) return false;
  LockGuard guard(g_writing);
  g_call_filters = call_filters();
  if (g_call_filters < 0) return false;
  for (size_t i = 0; i < count; ++i) {
    if (take_over(of, tables[i])) continue;
    for (size_t taken = 0; taken < i; ++taken) {
      const size_t place = place_of(reinterpret_cast<uintptr_t>(tables[taken].slots));
      if (place < kMostArenaTables) put_back(g_arena_tables[place]);
    }
    return false;
  }
  return true;
}

bool has_arena_tables(const void* inside) {
  const char* const library = module_path(inside);
  for (size_t place = 0; place < kMostArenaTables; ++place) {
    const ArenaFunctions& table = g_arena_tables[place];
    const uintptr_t at = table.at.load(std::memory_order_acquire);
    if (at != 0 && table.has_slots && module_path(reinterpret_cast<const void*>(at)) == library &&
        is_taken(table, place))
      return true;
  }
  return false;
}

const uintptr_t* trampolines_for(const ArenaClass& of, const uintptr_t (&real)[kArenaFunctions]) {
  LockGuard guard(g_writing);
  size_t place = place_of(real[kArenaAlloc]);
  if (place == kMostArenaTables) {
    place = place_of(0);
    if (place == kMostArenaTables) return nullptr;
    ArenaFunctions& table = begin_table(place, of);
    for (size_t i = 0; i < kArenaFunctions; ++i) table.real[i] = real[i];
    table.has_slots = false;
    table.at.store(real[kArenaAlloc], std::memory_order_release);
  }
  return gpupeak_arena_thunks[place];
}

ArenaStep gpupeak_arena_before(ArenaCall* call) {
  const KeptErrno program_errno;
  ArenaFunctions& table = g_arena_tables[call->which / kArenaFunctions];
  const uint64_t function = call->which % kArenaFunctions;
  const bool comes_back = begin(table, function, call);
  return {table.real[function], comes_back ? 1u : 0u};
}

void gpupeak_arena_after(ArenaCall* at) {
  Calls& calls = t_calls;
  if (calls.count == 0 || calls.open[calls.count - 1].at != at)
    return;  // the call was taken for one that was left
  const KeptErrno program_errno;
  const Call call = calls.open[--calls.count];
  t_flags.arena_calls = calls.count;
  if (gives(call.function)) {
    if (at->result != 0 && keeps_statistics(*call.table)) {
      note_block(call, at->result);
    } else if (at->result != 0) {
      note_plain_block(call, at->result);
    } else {
      refused(call, false);
    }
  } else if (call.arena->has_older) {
    note_return(call);
  }
  finish(call);
}

int gpupeak_arena_left(int /*version*/, int actions, uint64_t /*exception_class*/,
                       void* /*exception*/, void* /*context*/) {
  constexpr int kCleanup = 2, kGoOn = 8;  // _UA_CLEANUP_PHASE, _URC_CONTINUE_UNWIND
  const KeptErrno program_errno;
  if ((actions & kCleanup) != 0 && t_calls.count > 0) leave_last(false);
  return kGoOn;
}

const Adapter kArenaTablesAdapter{.of = "the functions of arenas that any of them replaced",
                                  .forget_unloaded = forget_unloaded,
                                  .leave_jump = leave_arena_calls_for,
                                  .put_back = put_back_all};

}  // namespace gpupeak::preload
