// Which settings of its pools a log could have had.
#pragma once

#include <vector>

#include "collector/summary/summary.h"
#include "collector/summary/what_if.h"

namespace gpupeak::collector {

/// A setting of an arena that the log does not have is a mistake: throws UsageError.
void require_arenas(const Summary& summary, const Changes& changes);
/// Each setting that pools of the log have.
std::vector<Changes> settings_of(const Summary& summary);

}  // namespace gpupeak::collector
