// `gpupeak held`: who held a sum at moments that are not its peak.
#pragma once

#include "collector/timeline/held_then.h"
#include "collector/views/heading.h"

namespace gpupeak::collector {

/// A table of sites for each moment; its rows add up to what was live then.
void write_held(Profile& profile, ScopeId scope, const std::vector<Moment>& moments, size_t top,
                std::ostream& out, const TextStyle& style);
void write_held_json(Profile& profile, ScopeId scope, const std::vector<Moment>& moments,
                     size_t top, std::ostream& out);

}  // namespace gpupeak::collector
