// For the page: when what was live at each device's peak was used, and the words for uses at any
// instant.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "collector/timeline/last_use.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// `string`: the number of a text in the page.
///
///   names    [name, of the peak, of an instant] of each use; other lists go by its place here
///   note     of a column of uses
///   notes    what is not seen
///   devices  by scope: bytes [of each use], idle_bytes; rows [use, title, kind, bytes, blocks,
///            shortest ns, longest ns …], largest first; other_bytes, other_rows
Json page_uses(Profile& profile, const LastUses& uses, size_t top,
               const std::function<uint32_t(const std::string&)>& string);

}  // namespace gpupeak::collector
