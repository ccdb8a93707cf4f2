// What a log says of a block's uses (`run --last-use`), and how they stand to an instant: the last
// use before it, the first one after it, or both.
//
//   block     first use  [instant]  last use    then
//   weights   +0.2 s     +2.0 s     +3.0 s      used before and after
//   gradient  +0.6 s     +2.0 s     +0.6 s      last seen used 1.4 s before
//
// The time of a use is when the work was given to the device.
#pragma once

#include <cstdint>

#include "collector/log/event.h"

namespace gpupeak::collector {

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

}  // namespace gpupeak::collector
