// What ONNX Runtime's arenas hand out: an arena of the log for each object of their class. Whoever
// calls holds the arena's lock, so that the events come in the order in which things happened and
// the arena's own totals change by nobody else meanwhile. HOOK-SAFE, outside any HookScope.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/timed_lock.h"
#include "stack/stack.h"

namespace gpupeak::preload {

struct OrtArena {
  std::atomic<uint64_t> object{0};
  TimedLock lock;
  std::atomic<bool> given_up{false};  ///< nothing is said of it any more
  // Under the lock.
  uint64_t number = 0;      ///< in the log; 0: not there yet
  uint64_t generation = 0;  ///< of the log in which it has that number
  uint32_t ordinal = 0;     ///< among those that are there at once, from 1 on
  int64_t requests = 0;     ///< that it had served when we last looked
  bool has_older = false;   ///< had handed out blocks before this log knew it
};
/// What an arena says of itself.
struct OrtArenaTotals {
  int64_t requests, in_use, reserved;
  int64_t limit;  ///< that it was given; 0 or the largest number: none
};

/// nullptr: it has been given up, or there are more than we have room for.
OrtArena* ort_arena_of(uint64_t object);
uint32_t ort_call_site(const CallerFrame& caller);

/// Before a request: makes the arena known to the log. `now`: its totals.
void ort_arena_asked(OrtArena& arena, const OrtArenaTotals& now);
void ort_block_given(OrtArena& arena, uint64_t address, uint64_t bytes, const OrtArenaTotals& after,
                     uint32_t stack);
/// Before it can be handed out again.
void ort_block_taken(OrtArena& arena, uint64_t address);
/// The same of an arena that has older blocks, which the log knows by their bytes alone:
/// afterwards, still under the lock.
void ort_block_returned(OrtArena& arena, uint64_t address, uint64_t bytes,
                        const OrtArenaTotals& after);
/// A request that it refused. `jumped`: a jump has left it.
void ort_request_failed(OrtArena& arena, uint64_t bytes, const OrtArenaTotals& before,
                        uint32_t stack, bool jumped);
/// Needs no lock: nobody else uses what is being destroyed.
void ort_arena_gone(uint64_t object);
/// Its blocks are not known any more, and the report says why. Needs no lock.
void ort_arena_give_up(OrtArena& arena, std::string_view why);
void ort_give_up_all(std::string_view why);

/// What was taken over of which release, or why nothing was, goes into the log as a fact.
void ort_pools_on(std::string_view version);
void ort_pools_off(std::string_view why);
/// Where recording began after that, now.
void say_ort_pools();

/// In a forked child.
void reset_ort_arenas();

}  // namespace gpupeak::preload
