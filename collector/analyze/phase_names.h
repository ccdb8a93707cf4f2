// Folds phases that libraries open by the thousand, each with a name of its own. Names that differ
// only in numbers become one phase, and so do the many names of one library's domain. analyze()
// lists phases with it.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// A phase of a summary that is not folded yet.
struct ListedPhase {
  static constexpr uint32_t kNoParent = UINT32_MAX;
  PhaseSummary phase;
  uint32_t parent = kNoParent;  ///< index of an earlier phase
  uint64_t domain = 0;          ///< its NVTX domain; 0: none, or the default one
};

/// The phases by their first begins. Up to 64 names that differ only in numbers are kept apart: the
/// layers of a model are such names. Phases that the program opens by gpupeak.h and the nodes of a
/// model are never folded.
std::vector<PhaseSummary> fold_phase_names(std::vector<ListedPhase> phases);

}  // namespace gpupeak::collector
