// What ONNX Runtime's and XLA's arenas hand out: an arena of the log for each object of their
// classes. Whoever calls holds the arena's lock, so that the events come in the order in which
// things happened and the arena's own totals change by nobody else meanwhile; where XLA keeps it
// for long, some go on apart. HOOK-SAFE, outside any HookScope.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/timed_lock.h"
#include "stack/stack.h"

namespace gpupeak::preload {

enum class BfcFramework : uint8_t { kOnnxRuntime, kXla };

struct BfcArena {
  std::atomic<uint64_t> object{0};
  TimedLock lock;
  std::atomic<uint32_t> apart_now{0};    ///< calls under way without the lock
  std::atomic<uint64_t> apart_calls{0};  ///< of them so far
  std::atomic<bool> given_up{false};     ///< nothing is said of it any more
  BfcFramework framework = BfcFramework::kOnnxRuntime;
  // Under the lock.
  uint64_t number = 0;      ///< in the log; 0: not there yet
  uint64_t generation = 0;  ///< of the log in which it has that number
  uint32_t ordinal = 0;     ///< among those that are there at once, from 1 on
  int64_t requests = 0;     ///< that it had served when we last looked
  bool has_older = false;   ///< had handed out blocks before this log knew it
};
/// What an arena says of itself.
struct BfcArenaTotals {
  int64_t requests, in_use, reserved;
  int64_t limit;  ///< that it was given; 0 or the largest number: none
};

/// nullptr: it has been given up, or there are more than we have room for.
BfcArena* bfc_arena_of(uint64_t object, BfcFramework framework);
uint32_t bfc_call_site(const CallerFrame& caller);

/// Before a request: makes the arena known to the log. `now`: its totals.
void bfc_arena_asked(BfcArena& arena, const BfcArenaTotals& now);
/// `after`: its totals; nullptr: not known.
void bfc_block_given(BfcArena& arena, uint64_t address, uint64_t bytes, const BfcArenaTotals* after,
                     uint32_t stack);
/// Before it can be handed out again.
void bfc_block_taken(BfcArena& arena, uint64_t address);
/// The same of an arena that has older blocks, which the log knows by their bytes alone:
/// afterwards, still under the lock.
void bfc_block_returned(BfcArena& arena, uint64_t address, uint64_t bytes,
                        const BfcArenaTotals* after);
/// A request that it refused. `jumped`: a jump has left it.
void bfc_request_failed(BfcArena& arena, uint64_t bytes, const BfcArenaTotals& before,
                        uint32_t stack, bool jumped);
/// Needs no lock: nobody else uses what is being destroyed.
void bfc_arena_gone(uint64_t object);
/// Its blocks are not known any more, and the report says why. Needs no lock.
void bfc_arena_give_up(BfcArena& arena, std::string_view why);
void bfc_give_up_all(BfcFramework framework, std::string_view why);

/// What was taken over of which release, or why nothing was, goes into the log as a fact.
void bfc_pools_on(BfcFramework framework, std::string_view version);
void bfc_pools_off(std::string_view why);
/// Where recording began after that, now.
void say_bfc_pools();

/// In a forked child.
void reset_bfc_arenas();

}  // namespace gpupeak::preload
