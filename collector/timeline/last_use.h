// When the blocks that were live at a device's peak were used: for the last time before it, for the
// first time after it, both, or never as far as was seen. It needs a log with uses (`run
// --last-use`). Blocks of arenas count, and not the driver's memory in which they lie; what is idle
// in arenas is apart.
//
//   block     allocated  first use  [peak]  last use  freed      at the peak
//   weights   +0.1 s     +0.2 s     +2.0 s  +3.0 s    +4.0 s     used before and after
//   gradient  +0.5 s     +0.6 s     +2.0 s  …         +4.0 s     last seen used 1.4 s before
//
// The time of a use is when the work was given to the device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/timeline/block_uses.h"

namespace gpupeak::collector {

struct LastUse {
  struct Row {
    UseAtPeak use = UseAtPeak::kNotKnown;
    GroupId group = kNoGroup;                 ///< for blocks of the driver
    HolderId holder = kNoHolder;              ///< for blocks of an arena
    uint64_t bytes = 0, blocks = 0;           ///< at the peak
    int64_t shortest_ns = 0, longest_ns = 0;  ///< over its blocks; kIdle: of the time without use
  };
  ScopeId scope{};
  uint64_t bytes = 0;  ///< the peak
  int64_t time_ns = 0;
  std::vector<Row> rows;    ///< in no order; with idle_bytes they add up to the peak
  uint64_t idle_bytes = 0;  ///< in arenas
};

struct LastUses {
  std::vector<LastUse> devices;
  std::optional<UsesEndEvent> end;  ///< none: the process did not come to its end
};

/// One for each device that had a peak. Replays the log once more. Throws UsageError if the log has
/// no uses, std::logic_error if rows do not add up.
LastUses last_uses(const Profile& profile, const Progress& progress = {});

/// How much of a device's peak a site had with one kind of use.
struct UseRow {
  UseAtPeak use{};
  std::string title, kind;
  uint64_t bytes = 0, blocks = 0;
  int64_t shortest_ns = 0, longest_ns = 0;
};
/// Largest first. With idle_bytes they add up to the peak.
std::vector<UseRow> use_rows(Profile& profile, const LastUse& of);
/// The bytes with this use.
uint64_t bytes_of(const LastUse& of, UseAtPeak use);

}  // namespace gpupeak::collector
