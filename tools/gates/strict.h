// What --strict asks of a run: one rule for all verbs.
#pragma once

#include "collector/summary/summary.h"
#include "collector/summary/whole_run_text.h"
#include "tools/shared/command_line.h"

namespace gpupeak::tools {

/// Whether every figure is exact and the run was recorded to its end. If it was killed, nobody
/// knows how much memory it would have taken.
inline bool is_whole(const collector::Quality& quality) {
  return quality.exact && quality.log_complete;
}

/// The same for all processes of a run. Also, no process still runs, none went on with a program
/// that was not recorded, and none that used a GPU is missing.
inline bool is_whole(const collector::Summary& summary) {
  if (!is_whole(summary.quality)) return false;
  const auto& run = summary.whole_run;
  if (!run) return true;
  for (const auto& process : run->processes)
    if (!process.exact || !process.complete) return false;
  if (!run->still_running.empty()) return false;
  for (const auto& process : run->not_recorded)
    if (process.went_on) return false;
  return !collector::lacks_device_memory(*run);
}

inline int strict_code(bool strict, bool whole) {
  return strict && !whole ? kIncomplete : kOk;
}

}  // namespace gpupeak::tools
