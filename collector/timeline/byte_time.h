// What was held for how long: live bytes, integrated over the log's time. Exact, in bytes times
// nanoseconds. `gpupeak report --byte-seconds` shows it.
//
//   100 bytes from +1 s to +3 s, 50 more from +2 s to +3 s     250 byte-seconds
#pragma once

#include <cstdint>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

/// Bytes times nanoseconds: a day of a card's memory is more than 64 bits hold.
__extension__ typedef unsigned __int128 ByteTime;

/// Of a sum, from the log's start to the end of its process.
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
  /// Who took it from the driver or the heap.
  std::vector<Taker> takers;
  /// The same seen inside of a device's arenas: with `in_arenas` what is outside of them. Both, and
  /// the takers, add up to `time`.
  std::vector<Taker> outside;
  std::vector<InArena> in_arenas;
};

/// By scope. Replays the log once more.
std::vector<HeldTime> held_over_time(const Profile& profile, const std::vector<ScopeId>& scopes,
                                     const Progress& progress = {});

}  // namespace gpupeak::collector
