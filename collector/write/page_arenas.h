// The inside of arenas over time, as JSON for a page.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "collector/timeline/arena_history.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// null without arenas. Each list is one row of numbers: the fields below, then those of the next
/// entry. Steps and times are differences from the entry before, addresses are relative to `base`.
///
///   segments   arena, address, bytes, captured, first step, steps
///   blocks     segment (-1 - arena: in none), address in it, bytes, row, first step, steps
///   uses       for each block: -1 (not known), 0 (not seen used), or 1 and four times in ns
///   several    step, arena, address, span, bytes, count
///   holes      step, arena, largest, below the largest block, below the largest refused request,
///              segments left out, their bytes
///   levels     step, arena, in use, reserved (both: difference from the level before)
///
/// `string` gives the number of a text.
Json page_arenas(const ArenaHistory& history, const TimeSeries& times,
                 const std::function<uint32_t(const std::string&)>& string);

}  // namespace gpupeak::collector
