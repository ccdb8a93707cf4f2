// For the page: when the blocks that were live at each device's peak were used, and the words for
// uses at any instant.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "collector/timeline/last_use.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// `string` gives the number of a text in the page.
///
///   names    for each use [name, text at the peak, text at an instant]; other lists have its index
///   note     stands below a column of uses
///   notes    what a use is, and what is not seen
///   devices  by scope: bytes [of each use], idle_bytes; rows [use, title, kind, bytes, blocks,
///            shortest ns, longest ns …], largest first; other_bytes, other_rows
Json page_uses(Profile& profile, const LastUses& uses, size_t top,
               const std::function<uint32_t(const std::string&)>& string);

}  // namespace gpupeak::collector
