// What frameworks' arenas hand out: an arena of the log for each object of their classes. Of those
// that keep statistics, whoever calls holds the arena's lock, so that its own totals change by
// nobody else meanwhile; where XLA keeps it for long, some go on apart. HOOK-SAFE, outside any
// HookScope.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "base/timed_lock.h"
#include "stack/stack.h"

namespace gpupeak::preload {

/// A fact that is written once into each log (a forked child has a new one).
struct ArenaFact {
  Text<256> text;
  uint64_t said_in = 0;
};
/// A framework, or a rule, whose arenas are seen. Stays where it is.
struct ArenaMaker {
  const char* shown = nullptr;
  const char* fact = nullptr;  ///< the key under which the log has what was taken over of it
  ArenaFact on{};
};

struct ArenaObject {
  std::atomic<uint64_t> object{0};
  TimedLock lock;
  std::atomic<uint32_t> apart_now{0};    ///< calls under way without the lock
  std::atomic<uint64_t> apart_calls{0};  ///< of them so far
  std::atomic<bool> given_up{false};     ///< its blocks are not logged any more
  const ArenaMaker* maker = nullptr;
  // Under the lock.
  uint64_t number = 0;      ///< in the log; 0: not there yet
  uint64_t generation = 0;  ///< of the log in which it has that number
  uint32_t ordinal = 0;     ///< among those that are there at once, from 1 on
  int64_t requests = 0;     ///< that it had served when we last looked
  bool has_older = false;   ///< had handed out blocks before this log knew it
};
/// What an arena says of itself.
struct ArenaTotals {
  int64_t requests, in_use, reserved;
  int64_t limit;  ///< that it was given; 0 or the largest number: none
};

/// nullptr: it has been given up, or there are more than we have room for.
ArenaObject* arena_object_of(uint64_t object, const ArenaMaker& maker);
uint32_t arena_call_site(const CallerFrame& caller);

/// Before a request: makes the arena known to the log, but for one that has blocks from before an
/// attach: that is made known with its next block. `now`: its totals; all 0 of one that keeps none.
void arena_requested(ArenaObject& arena, const ArenaTotals& now);
/// A block of `bytes`, for a request of `asked`. `after`: the arena's totals; nullptr: not known.
void arena_block_given(ArenaObject& arena, uint64_t address, uint64_t bytes, uint64_t asked,
                       const ArenaTotals* after, uint32_t stack);
/// Before it can be handed out again.
void arena_block_taken(ArenaObject& arena, uint64_t address);
/// The same of an arena that has older blocks, which the log knows by their bytes alone:
/// afterwards, still under the lock.
void arena_block_returned(ArenaObject& arena, uint64_t address, uint64_t bytes,
                          const ArenaTotals* after);
/// A request that it refused. `before`: its totals; nullptr: not known. `jumped`: a jump has left
/// it.
void arena_request_failed(ArenaObject& arena, uint64_t bytes, const ArenaTotals* before,
                          uint32_t stack, bool jumped);
/// Needs no lock: an arena that is being destroyed is not in use.
void arena_object_gone(uint64_t object);
/// Its blocks are not known any more, and the report says why. Needs no lock.
void arena_object_give_up(ArenaObject& arena, std::string_view why);
void give_up_arenas_of(const ArenaMaker& maker, std::string_view why);

/// What was taken over of which release, or why nothing was, goes into the log as a fact.
void arenas_on(ArenaMaker& maker, std::string_view version);
void arenas_off(std::string_view why);
/// Where recording began after that, now.
void say_arenas();

/// In a forked child.
void reset_arena_objects();

}  // namespace gpupeak::preload
