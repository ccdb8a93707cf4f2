// Who held a peak, seen inside of the device's arenas: what they had in use and idle takes the
// place of those who took that memory from the driver. The summary, tags and exports ask it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collector/replay/replay.h"

namespace gpupeak::collector {

/// What one group contributes to a table.
struct Contribution {
  GroupId group;
  uint64_t bytes;
  uint64_t count;
};

/// In use, by a stack or by the name that the arena gave it, or idle.
struct ArenaPart {
  const ArenaTable::Holder* holder;
  uint64_t bytes;
  uint64_t count;  ///< blocks; 0 for what is idle

  bool is_idle() const { return holder->what == ArenaTable::What::kIdle; }
};

/// Both together add up to the peak.
struct PeakParts {
  std::vector<Contribution> outside;  ///< of all arenas
  std::vector<ArenaPart> in_arenas;   ///< empty unless the scope is all memory of one device
};

/// Who took the memory from the driver or the heap: adds up to the peak.
std::vector<Contribution> contributions_at_peak(const Replay& replay, ScopeId scope);
PeakParts parts_at_peak(const Replay& replay, ScopeId scope);
/// What a holder of the arenas has of a device's memory, at whichever instant.
using HeldByHolder = std::function<PeakFinder::AtPeak(HolderId)>;
/// The first `count` holders of the arenas take the place of those who took that memory.
PeakParts split_by_arenas(const ArenaTable& table, size_t count, const HeldByHolder& held_by,
                          std::vector<Contribution> held);
/// "idle in PyTorch's arena".
std::string idle_title(const Replay& replay, const ArenaTable::Holder& holder);

}  // namespace gpupeak::collector
