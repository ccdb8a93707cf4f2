// Finds who held a peak, with a look inside the device's arenas: what they had in use and idle
// takes the place of the calls that took that memory from the driver. The summary, tags and exports
// use it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collector/replay/replay.h"

namespace gpupeak::collector {

/// A part of a peak inside of arenas: in use by a stack or by the name that the arena gave it, or
/// idle.
struct ArenaPart {
  const ArenaTable::Holder* holder;
  uint64_t bytes;
  uint64_t count;  ///< blocks; 0 if it is idle

  bool is_idle() const { return holder->what == ArenaTable::What::kIdle; }
};

/// The parts of a peak. Both lists together add up to it.
struct PeakParts {
  std::vector<Contribution> outside;  ///< outside of all arenas
  std::vector<ArenaPart> in_arenas;   ///< empty unless the scope is all memory of one device
};

/// The calls that took the memory from the driver or the heap: they add up to the peak.
std::vector<Contribution> contributions_at_peak(const Replay& replay, ScopeId scope);
PeakParts parts_at_peak(const Replay& replay, ScopeId scope);
/// What an arena's holder has of a device's memory at some instant.
using HeldByHolder = std::function<PeakFinder::AtPeak(HolderId)>;
/// Splits `held`: the first `count` holders of arenas take the place of the calls that took that
/// memory.
PeakParts split_by_arenas(const ArenaTable& table, size_t count, const HeldByHolder& held_by,
                          std::vector<Contribution> held);
/// "idle in PyTorch's arena".
std::string idle_title(const Replay& replay, const ArenaTable::Holder& holder);

}  // namespace gpupeak::collector
