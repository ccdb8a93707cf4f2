// Who held a peak, seen inside of the device's arenas: what they had in use and idle takes the
// place of those who took that memory from the driver. The summary, tags and exports ask it.
#pragma once

#include <cstdint>
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
/// "idle in PyTorch's arena".
std::string idle_title(const Replay& replay, const ArenaTable::Holder& holder);

}  // namespace gpupeak::collector
