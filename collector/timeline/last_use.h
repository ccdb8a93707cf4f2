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
#include "collector/log/event.h"

namespace gpupeak::collector {

// What a log says of a block's uses (`run --last-use`), and how they stand to an instant: the last
// use before it, the first one after it, or both.
//
//   block     first use  [instant]  last use    then
//   weights   +0.2 s     +2.0 s     +3.0 s      used before and after
//   gradient  +0.6 s     +2.0 s     +0.6 s      last seen used 1.4 s before
//
// The time of a use is when the work was given to the device.

/// How a block was used around an instant.
enum class UseAtPeak : uint8_t {
  kOver,      ///< not seen used after it
  kEarly,     ///< not seen used before it
  kIdle,      ///< seen used before and after; the time between is its longest without use
  kNever,     ///< not seen used in its life
  kInUse,     ///< seen used before and after
  kNotKnown,  ///< the log does not say: the process did not end in order, or left it out
};

/// How a block's uses stand to an instant, and a time in ticks: since the last use (kOver), until
/// the first one (kEarly), or without use (kIdle).
struct UseStanding {
  UseAtPeak use = UseAtPeak::kNotKnown;
  uint64_t ticks = 0;
};

/// The uses of one block; times in ticks.
struct BlockUses {
  bool is_known = false;  ///< the log says something of its uses
  uint64_t count = 0, first = 0, last = 0;
  uint64_t idle_since = 0, idle = 0;

  /// Adds a record of the block's uses, which has this time.
  void add(const UsedEvent& used, uint64_t ticks);
  UseStanding at(uint64_t ticks) const;
};

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
