// The inside of arenas, as a page has it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "collector/timeline/arena_history.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// null without arenas. Lists of numbers, one after the other; steps and times are how many further
/// on than the one before, addresses beyond `base`.
///
///   segments   arena, address, bytes, captured, first step, steps
///   blocks     segment (-1 - arena: in none), address in it, bytes, row, first step, steps
///   several    step, arena, address, span, bytes, count
///   holes      step, arena, largest, below the largest block, below the largest refused request,
///              segments left out, their bytes
///   levels     step, arena, in use, reserved (both: by how much more)
///
/// `string`: the number of a text.
Json page_arenas(const ArenaHistory& history, const TimeSeries& times,
                 const std::function<uint32_t(const std::string&)>& string);

}  // namespace gpupeak::collector
