// Calls of ONNX Runtime's arenas, as the thunks of ort_arena_*.S report them. The size of a block
// is what its arena's own statistics grow by, since an arena rounds, and may hand out more; so that
// this holds with several threads, an arena's calls are made one after the other, as its own lock
// has them be anyway.
#include <cerrno>

#include "base/hook_scope.h"
#include "base/process_state.h"
#include "hooks/ort_arena.h"
#include "hooks/ort_arena_table.h"
#include "track/pool_ort.h"

namespace gpupeak::preload {
namespace {

/// onnxruntime::AllocatorStats: allocations, reservations, extensions, shrinkages and the bytes in
/// use; since 1.28 or 1.29 also the bytes that were asked for; then the bytes taken from below, and
/// three words more. How many words are written tells which it is.
OrtArenaTotals totals_of(const OrtArenaTable& table, uint64_t object) {
  constexpr size_t kRoom = 64;  // for what later releases add
  constexpr int64_t kUnwritten = 0x5bd1e995a97c2d37;
  int64_t words[kRoom];
  for (int64_t& word : words) word = kUnwritten;
  reinterpret_cast<void (*)(uint64_t, int64_t*)>(table.statistics)(object, words);
  size_t written = kRoom;
  while (written > 0 && words[written - 1] == kUnwritten) --written;
  if (written != 9 && written != 10) return {-1, 0, 0, 0};
  return {words[0] + words[1], words[4], words[written - 4], words[written - 1]};
}

bool gives(uint64_t function) {
  return function <= kOrtReserve;
}

/// A thread's calls that are under way, innermost last. Not in the thunk's frame, which may be
/// gone.
struct Call {
  const OrtArenaCall* at = nullptr;
  OrtArenaTable* table = nullptr;
  OrtArena* arena = nullptr;
  uint64_t function = 0, object = 0, argument = 0;
  uint32_t stack = 0;
  OrtArenaTotals before{};
};
struct Calls {
  static constexpr uint32_t kMost = 4;
  uint32_t count = 0;
  Call open[kMost] = {};
};
constinit thread_local Calls t_calls __attribute__((tls_model("initial-exec")));

void refused(const Call& call, bool jumped) {
  if (!gives(call.function) || call.argument == 0) return;
  ort_request_failed(*call.arena, call.argument, call.before, call.stack, jumped);
}

/// The innermost call was left without a result, by an exception or a jump.
void leave_last(bool jumped) {
  const Call call = t_calls.open[--t_calls.count];
  refused(call, jumped);
  call.arena->lock.unlock();
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

constexpr std::string_view kNotBorneOut =
    "the statistics of an ONNX Runtime arena do not bear out what was seen of it";

/// What is taken for an arena's statistics may be anything, until a request has proved it.
void disbelieve(const Call& call) {
  if (call.table->proven.load(std::memory_order_relaxed)) {
    ort_arena_give_up(*call.arena, kNotBorneOut);
  } else {
    call.table->off.store(true, std::memory_order_relaxed);
    put_back_ort_arena_table(*call.table);
    ort_give_up_all(kNotBorneOut);
  }
}

/// One request more, and as many bytes as it asked for at least.
bool bears_out(const OrtArenaTotals& before, const OrtArenaTotals& after, uint64_t bytes) {
  const int64_t requests = after.requests - before.requests;  // a reservation counts once or twice
  return requests >= 1 && requests <= 2 && before.in_use >= 0 && after.reserved >= after.in_use &&
         after.in_use - before.in_use >= static_cast<int64_t>(bytes);
}

void note_block(const Call& call, uint64_t address) {
  const OrtArenaTotals after = totals_of(*call.table, call.object);
  if (!bears_out(call.before, after, call.argument)) return disbelieve(call);
  call.table->proven.store(true, std::memory_order_relaxed);
  ort_block_given(*call.arena, address, static_cast<uint64_t>(after.in_use - call.before.in_use),
                  after, call.stack);
}

/// Under the arena's lock. False: it is not what it was taken for.
bool begin(Call& call) {
  if (!gives(call.function)) {
    if (call.arena->has_older) {
      call.before = totals_of(*call.table, call.object);
    } else {
      ort_block_taken(*call.arena, call.argument);
    }
    return true;
  }
  call.before = totals_of(*call.table, call.object);
  if (call.before.requests < 0) {
    disbelieve(call);
    return false;
  }
  ort_arena_asked(*call.arena, call.before);
  return true;
}

/// Whether the result is of interest.
bool begin(OrtArenaTable& table, uint64_t function, const OrtArenaCall* at) {
  if (!recording() || table.off.load(std::memory_order_relaxed)) return false;
  while (leaves_last(reinterpret_cast<uintptr_t>(at))) leave_last(true);
  // One of these functions called by another is the same request.
  if (is_inside(at->object) || t_calls.count == Calls::kMost) return false;
  if (function >= kOrtDestroy) {
    ort_arena_gone(at->object);
    return false;
  }
  if (at->argument == 0) return false;  // no bytes, no block
  OrtArena* const arena = ort_arena_of(at->object);
  if (arena == nullptr) return false;
  const CallerFrame caller{at->return_address, reinterpret_cast<uintptr_t>(&at->return_address + 1),
                           at->frame_pointer};
  const uint32_t stack = gives(function) ? ort_call_site(caller) : 0;
  if (!arena->lock.lock()) {
    ort_arena_give_up(*arena, "a call of an ONNX Runtime arena kept another waiting for seconds");
    return false;
  }
  Call call{at, &table, arena, function, at->object, at->argument, stack, {}};
  if (!begin(call)) {
    arena->lock.unlock();
    return false;
  }
  t_calls.open[t_calls.count++] = call;
  return true;
}

}  // namespace

void leave_ort_arena_calls_for(uintptr_t target) {
  if (!leaves_last(target) || is_within_handler(target)) return;
  while (leaves_last(target)) leave_last(true);
}

OrtArenaStep gpupeak_ort_arena_before(OrtArenaCall* call) {
  const int program_errno = errno;
  OrtArenaTable& table = g_ort_arena_tables[call->which / kOrtArenaFunctions];
  const uint64_t function = call->which % kOrtArenaFunctions;
  const bool comes_back = begin(table, function, call);
  errno = program_errno;
  return {table.real[function], comes_back ? 1u : 0u};
}

void gpupeak_ort_arena_after(OrtArenaCall* at) {
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
    const OrtArenaTotals after = totals_of(*call.table, call.object);
    ort_block_returned(*call.arena, call.argument,
                       static_cast<uint64_t>(call.before.in_use - after.in_use), after);
  }
  call.arena->lock.unlock();
  errno = program_errno;
}

int gpupeak_ort_arena_left(int /*version*/, int actions, uint64_t /*exception_class*/,
                           void* /*exception*/, void* /*context*/) {
  constexpr int kCleanup = 2, kGoOn = 8;  // _UA_CLEANUP_PHASE, _URC_CONTINUE_UNWIND
  const int program_errno = errno;
  if ((actions & kCleanup) != 0 && t_calls.count > 0) leave_last(false);
  errno = program_errno;
  return kGoOn;
}

}  // namespace gpupeak::preload
