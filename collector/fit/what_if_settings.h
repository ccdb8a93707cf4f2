// Finds which settings the arenas of a log could have had.
#pragma once

#include <vector>

#include "collector/summary/summary.h"
#include "collector/summary/what_if.h"

namespace gpupeak::collector {

/// Throws UsageError for a setting of an arena that the log does not have.
void require_arenas(const Summary& summary, const Changes& changes);
/// The settings that the log's arenas know.
std::vector<Changes> settings_of(const Summary& summary);

}  // namespace gpupeak::collector
