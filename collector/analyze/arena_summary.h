// Makes the summary's list of arenas, and the rows of a device's peak in which what its arenas have
// in use and idle takes the place of the calls that took that memory from the driver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// The title of an arena's holder: the name that the arena gave it, or the site.
std::string arena_holder_title(const Replay& replay, Attribution& by_site,
                               const ArenaTable::Holder& holder);
/// The same as a row of this kind, without figures.
Holder arena_holder_row(const Replay& replay, Attribution& by_site,
                        const ArenaTable::Holder& holder, std::string_view kind);
/// The arenas, the largest first, each with its `top` largest holders.
std::vector<ArenaSummary> summarize_arenas(const Replay& replay, Attribution& by_site, size_t top);
/// The driver's pools by device: what they had reserved, as far as it was read.
std::vector<DriverPoolsSummary> summarize_driver_pools(const Replay& replay, Attribution& by_site,
                                                       size_t top);

/// Adds rows for what is in use, by site, and what is idle, by arena. With the rows of what is
/// outside they add up to the peak.
void add_arena_rows(const Replay& replay, Attribution& by_site, const std::vector<ArenaPart>& parts,
                    size_t top, Peak& peak);
/// Fills in who held a sum, grouped as `by_choice` does. If it groups by site, what is in arenas
/// has rows of its own.
void add_holders(const Replay& replay, Attribution& by_site, Attribution& by_choice,
                 const PeakParts& parts, const std::vector<Contribution>& takers, size_t top,
                 bool with_stacks, Peak& peak, const RowRoles* roles = nullptr);

}  // namespace gpupeak::collector
