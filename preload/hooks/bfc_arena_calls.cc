// Calls of arenas, as the thunks of bfc_arena_*.S report them. The size of a block is what its
// arena's own statistics grow by, since an arena rounds, and may hand out more; so that this holds
// with several threads, an arena's calls are made one after the other, as its own lock has them be
// anyway. XLA's may wait with that lock released until another thread gives a block back: calls
// that come meanwhile soon go on apart, and what statistics say then is not asked.
#include <cerrno>

#include "base/hook_scope.h"
#include "base/process_state.h"
#include "hooks/bfc_arena.h"
#include "hooks/bfc_arena_table.h"
#include "track/pool_bfc.h"

namespace gpupeak::preload {
namespace {

BfcArenaTotals totals_of(const BfcArenaTable& table, uint64_t object) {
  return table.of->totals(table.statistics, object);
}

bool gives(uint64_t function) {
  return function <= kBfcReserve;
}

/// A thread's calls that are under way, innermost last. Not in the thunk's frame, which may be
/// gone.
struct Call {
  const BfcArenaCall* at = nullptr;
  BfcArenaTable* table = nullptr;
  BfcArena* arena = nullptr;
  uint64_t function = 0, object = 0, argument = 0;
  uint32_t stack = 0;
  BfcArenaTotals before{};
  bool apart = false;        ///< without the arena's lock
  uint64_t other_calls = 0;  ///< that went on apart until this one began
  uint64_t block_bytes = 0;  ///< of the block that is given back, where it had to be asked for
};
struct Calls {
  static constexpr uint32_t kMost = 4;
  uint32_t count = 0;
  Call open[kMost] = {};
};
constinit thread_local Calls t_calls __attribute__((tls_model("initial-exec")));

void refused(const Call& call, bool jumped) {
  if (!gives(call.function) || call.argument == 0) return;
  bfc_request_failed(*call.arena, call.argument, call.before, call.stack, jumped);
}

void finish(const Call& call) {
  if (call.apart) {
    call.arena->apart_now.fetch_sub(1);
  } else {
    call.arena->lock.unlock();
  }
}

/// Whether nobody else has used the arena since the call began.
bool was_alone(const Call& call) {
  return !call.apart && call.arena->apart_now.load() == 0 &&
         call.arena->apart_calls.load() == call.other_calls;
}

uint64_t block_bytes(const Call& call, uint64_t address) {
  return reinterpret_cast<size_t (*)(uint64_t, uint64_t)>(call.table->block_size)(call.object,
                                                                                  address);
}

/// The innermost call was left without a result, by an exception or a jump.
void leave_last(bool jumped) {
  const Call call = t_calls.open[--t_calls.count];
  refused(call, jumped);
  finish(call);
}

/// Calls that have been left in a way that nobody told us lie deeper in the stack than we are, or
/// where we are.
bool leaves_last(uintptr_t stack_pointer) {
  return t_calls.count > 0 &&
         reinterpret_cast<uintptr_t>(t_calls.open[t_calls.count - 1].at) <= stack_pointer;
}

bool is_inside(uint64_t object) {
  for (uint32_t i = 0; i < t_calls.count; ++i) {
    if (t_calls.open[i].object == object) return true;
  }
  return false;
}

/// What is taken for an arena's statistics may be anything, until a request has proved it.
void disbelieve(const Call& call) {
  constexpr const char* kWhy = "the statistics of an arena do not bear out what was seen of it";
  if (call.table->proven.load(std::memory_order_relaxed)) {
    bfc_arena_give_up(*call.arena, kWhy);
  } else {
    call.table->off.store(true, std::memory_order_relaxed);
    put_back_bfc_arena_table(*call.table);
    bfc_give_up_all(call.table->of->framework, kWhy);
  }
}

/// One request more, and as many bytes as it asked for at least; where an arena can be asked, as
/// many as the block has.
bool bears_out(const Call& call, const BfcArenaTotals& after, uint64_t address) {
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

void note_block(const Call& call, uint64_t address) {
  const bool proven = call.table->proven.load(std::memory_order_relaxed);
  if (!was_alone(call)) {
    if (!proven) return disbelieve(call);
    return bfc_block_given(*call.arena, address, block_bytes(call, address), nullptr, call.stack);
  }
  const BfcArenaTotals after = totals_of(*call.table, call.object);
  if (!bears_out(call, after, address)) return disbelieve(call);
  call.table->proven.store(true, std::memory_order_relaxed);
  bfc_block_given(*call.arena, address, static_cast<uint64_t>(after.in_use - call.before.in_use),
                  &after, call.stack);
}

void note_return(const Call& call) {
  if (!was_alone(call)) {
    if (call.block_bytes != 0)
      bfc_block_returned(*call.arena, call.argument, call.block_bytes, nullptr);
    return;
  }
  const BfcArenaTotals after = totals_of(*call.table, call.object);
  bfc_block_returned(*call.arena, call.argument,
                     static_cast<uint64_t>(call.before.in_use - after.in_use), &after);
}

/// False: it is not what it was taken for.
bool begin(Call& call) {
  if (!gives(call.function)) {
    if (!call.arena->has_older) {
      bfc_block_taken(*call.arena, call.argument);
      return true;
    }
    call.before = totals_of(*call.table, call.object);
    if (call.table->block_size != 0) call.block_bytes = block_bytes(call, call.argument);
    return true;
  }
  call.before = totals_of(*call.table, call.object);
  if (call.before.requests < 0) {
    disbelieve(call);
    return false;
  }
  bfc_arena_asked(*call.arena, call.before);
  return true;
}

/// False: it is given up.
bool enter(Call& call) {
  BfcArena& arena = *call.arena;
  if (call.table->block_size == 0) {
    if (arena.lock.lock()) return true;
    bfc_arena_give_up(arena, "a call of an arena kept another waiting for seconds");
    return false;
  }
  // Whoever holds it now waits for memory: the next one need not find that out again.
  const bool others_went_on = arena.apart_now.load() > 0;
  call.apart = !arena.lock.lock(others_went_on ? 0 : 1);
  if (call.apart) {
    arena.apart_now.fetch_add(1);
    arena.apart_calls.fetch_add(1);
  }
  call.other_calls = arena.apart_calls.load();
  return true;
}

/// Whether the result is of interest.
bool begin(BfcArenaTable& table, uint64_t function, const BfcArenaCall* at) {
  if (!recording() || table.off.load(std::memory_order_relaxed)) return false;
  while (leaves_last(reinterpret_cast<uintptr_t>(at))) leave_last(true);
  // One of these functions called by another is the same request.
  if (is_inside(at->object) || t_calls.count == Calls::kMost) return false;
  if (function >= kBfcDestroy) {
    bfc_arena_gone(at->object);
    return false;
  }
  const bool second = gives(function) && table.of->size_comes_second;
  const uint64_t argument = second ? at->next_argument : at->argument;
  if (argument == 0) return false;  // no bytes, no block
  BfcArena* const arena = bfc_arena_of(at->object, table.of->framework);
  if (arena == nullptr) return false;
  const CallerFrame caller{at->return_address, reinterpret_cast<uintptr_t>(&at->return_address + 1),
                           at->frame_pointer};
  const uint32_t stack = gives(function) ? bfc_call_site(caller) : 0;
  Call call{at, &table, arena, function, at->object, argument, stack};
  if (!enter(call)) return false;
  if (!begin(call)) {
    finish(call);
    return false;
  }
  t_calls.open[t_calls.count++] = call;
  return true;
}

}  // namespace

void leave_bfc_arena_calls_for(uintptr_t target) {
  if (!leaves_last(target) || is_within_handler(target)) return;
  while (leaves_last(target)) leave_last(true);
}

BfcArenaStep gpupeak_bfc_arena_before(BfcArenaCall* call) {
  const int program_errno = errno;
  BfcArenaTable& table = g_bfc_arena_tables[call->which / kBfcArenaFunctions];
  const uint64_t function = call->which % kBfcArenaFunctions;
  const bool comes_back = begin(table, function, call);
  errno = program_errno;
  return {table.real[function], comes_back ? 1u : 0u};
}

void gpupeak_bfc_arena_after(BfcArenaCall* at) {
  Calls& calls = t_calls;
  if (calls.count == 0 || calls.open[calls.count - 1].at != at)
    return;  // taken for one that was left
  const int program_errno = errno;
  const Call call = calls.open[--calls.count];
  if (gives(call.function)) {
    if (at->result != 0) {
      note_block(call, at->result);
    } else {
      refused(call, false);
    }
  } else if (call.arena->has_older) {
    note_return(call);
  }
  finish(call);
  errno = program_errno;
}

int gpupeak_bfc_arena_left(int /*version*/, int actions, uint64_t /*exception_class*/,
                           void* /*exception*/, void* /*context*/) {
  constexpr int kCleanup = 2, kGoOn = 8;  // _UA_CLEANUP_PHASE, _URC_CONTINUE_UNWIND
  const int program_errno = errno;
  if ((actions & kCleanup) != 0 && t_calls.count > 0) leave_last(false);
  errno = program_errno;
  return kGoOn;
}

}  // namespace gpupeak::preload
