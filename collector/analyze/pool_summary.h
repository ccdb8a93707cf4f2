// The summary's list of arenas; and a device's peak, in which what its arenas have in use and idle
// takes the place of those who took that memory from the driver.
#pragma once

#include <string>
#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// What the arena called it, or the site.
std::string pool_holder_title(const Replay& replay, Attribution& by_site,
                              const ArenaTable::Holder& holder);
/// Largest first, with the `top` largest holders each.
std::vector<ArenaSummary> summarize_arenas(const Replay& replay, Attribution& by_site, size_t top);

/// In use by site, then idle by arena; with the rows of what is outside they add up to the peak.
void add_pool_rows(const Replay& replay, Attribution& by_site, const std::vector<PoolPart>& parts,
                   size_t top, Peak& peak);

}  // namespace gpupeak::collector
