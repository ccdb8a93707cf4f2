// How much was held for how long: live bytes added up over the log's time, exactly, in bytes times
// nanoseconds. `gpupeak report --byte-seconds` shows it.
//
//   100 bytes from +1 s to +3 s, 50 more from +2 s to +3 s     250 byte-seconds
#pragma once

#include <cstdint>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

/// Bytes times nanoseconds: 64 bits do not hold a day of a card's memory.
__extension__ typedef unsigned __int128 ByteTime;

/// What a sum held, from the log's start to the end of its process.
struct HeldTime {
  struct Taker {
    GroupId group = kNoGroup;
    ByteTime time = 0;
  };
  struct InArena {
    HolderId holder = kNoHolder;
    ByteTime time = 0;
  };
  ScopeId scope{};
  ByteTime time = 0;
  /// By the calls that took it from the driver or the heap.
  std::vector<Taker> takers;
  /// The same with the inside of a device's arenas: what was in them, and what was outside. Both
  /// together add up to `time`, and so do the takers alone.
  std::vector<Taker> outside;
  std::vector<InArena> in_arenas;
};

/// One result for each scope, in their order. Replays the log once more.
std::vector<HeldTime> held_over_time(const Profile& profile, const std::vector<ScopeId>& scopes,
                                     const Progress& progress = {});

}  // namespace gpupeak::collector
