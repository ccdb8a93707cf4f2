// What --strict asks of a run: one rule for all verbs.
#pragma once

#include "collector/summary/summary.h"
#include "exit_codes.h"

namespace gpupeak::tools {

/// Every figure is exact, and the run was recorded to its end: of one that was killed nobody knows
/// what it would have taken.
inline bool is_whole(const collector::Quality& quality) {
  return quality.exact && quality.log_complete;
}

inline int strict_code(bool strict, bool whole) {
  return strict && !whole ? kIncomplete : kOk;
}

}  // namespace gpupeak::tools
