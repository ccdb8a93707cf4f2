// Names with wildcards: `*` any text, also none; `?` one character. Everything else stands for
// itself, brackets too, since C++ names hold them. Rules use it.
#pragma once

#include <string_view>

namespace gpupeak::collector {

/// Whether the pattern describes all of the text.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace gpupeak::collector
