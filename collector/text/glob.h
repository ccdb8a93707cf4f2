// Patterns with wildcards: `*` is any text, also none; `?` is one character. Everything else stands
// for itself, also brackets, since C++ names have them. Rules use it.
#pragma once

#include <string_view>

namespace gpupeak::collector {

/// Whether the pattern matches the whole text.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace gpupeak::collector
