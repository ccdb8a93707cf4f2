// Follows what frameworks' arenas hand out. Each object of an arena's class is an arena in the log.
// If the arena keeps statistics, the caller holds ArenaObject::lock, so that no other thread
// changes the arena's totals meanwhile. Where XLA keeps that lock for long, other calls go on
// without it (apart_now). HOOK-SAFE, outside any HookScope.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/lock.h"
#include "base/text.h"
#include "stack/stack.h"

namespace gpupeak::preload {

/// A framework or a rule whose arenas are followed. An object must stay at its address.
struct ArenaMaker {
  const char* shown = nullptr;  ///< the name of its arenas in reports
  const char* fact = nullptr;   ///< key of the fact that says which release was taken over
};

struct ArenaObject {
  std::atomic<uint64_t> object{0};
  TimedLock lock;
  std::atomic<uint32_t> apart_now{0};    ///< calls under way without the lock
  std::atomic<uint64_t> apart_calls{0};  ///< calls without the lock so far
  std::atomic<bool> given_up{false};     ///< its blocks are not logged any more
  const ArenaMaker* maker = nullptr;
  // Under the lock.
  uint64_t number = 0;      ///< the arena's number in the log; 0: it has none yet
  uint64_t generation = 0;  ///< the generation of the log with that number
  uint32_t ordinal = 0;     ///< tells apart the maker's arenas that exist at once, from 1 on
  int64_t requests = 0;     ///< that it had served when we last looked
  bool has_older = false;   ///< it had handed out blocks before this log knew it
};
/// An arena's own statistics: requests that it served, and bytes.
struct ArenaTotals {
  int64_t requests, in_use, reserved;
  int64_t limit;  ///< that it was given; 0 or the largest number: none
};

/// Finds the arena of an object, or enters it. nullptr: it was given up, there is no room for one
/// more, or the process does not record.
ArenaObject* arena_object_of(uint64_t object, const ArenaMaker& maker);
uint32_t arena_call_site(const CallerFrame& caller);

/// Call it before a request. Makes the arena known to the log. An arena that has blocks from before
/// an attach is made known with its next block instead. `now`: its totals, all 0 if it keeps none.
void arena_requested(ArenaObject& arena, const ArenaTotals& now);
/// The arena handed out a block of `bytes` for a request of `asked` bytes. `after`: the arena's
/// totals after it; nullptr: not known.
void arena_block_given(ArenaObject& arena, uint64_t address, uint64_t bytes, uint64_t asked,
                       const ArenaTotals* after, uint32_t stack);
/// The arena takes a block back. Call it before the block can be handed out again.
void arena_block_taken(ArenaObject& arena, uint64_t address);
/// The same for an arena with older blocks, of which the log knows only the bytes. Call it when the
/// block was taken back, still under the lock.
void arena_block_returned(ArenaObject& arena, uint64_t address, uint64_t bytes,
                          const ArenaTotals* after);
/// The arena refused a request. `before`: its totals before the request; nullptr: not known.
/// `jumped`: a jump has left the arena's function.
void arena_request_failed(ArenaObject& arena, uint64_t bytes, const ArenaTotals* before,
                          uint32_t stack, bool jumped);
/// The object is being destroyed. Needs no lock, since nobody uses the arena then.
void arena_object_gone(uint64_t object);
/// Follows the arena no more, and the report says why. Needs no lock.
void arena_object_give_up(ArenaObject& arena, std::string_view why);
void give_up_arenas_of(const ArenaMaker& maker, std::string_view why);

/// These log a fact: which release of a framework was taken over, or why something was not.
void arenas_on(const ArenaMaker& maker, std::string_view version);
void arenas_off(std::string_view why);
/// Logs the facts that were found out before recording began.
void say_arenas();

/// In a forked child.
void reset_arena_objects();

}  // namespace gpupeak::preload
