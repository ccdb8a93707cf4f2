// How much is believed of a name that a log has. Definitions and NameTable ask it.
#pragma once

#include <string_view>

namespace gpupeak::collector {

/// No path is longer, and each name may be told very often. Ends with a whole character.
std::string_view bounded_name(std::string_view name);

}  // namespace gpupeak::collector
