// Guesses what a misspelt name was meant to be. Messages about unknown names end with it, instead
// of a list of all names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// The names most like `word`, best first; none if nothing is alike.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& names,
                                 size_t most = 3);

/// "; did you mean x, y or z?" or, if nothing is alike, "; there are a, b, c … (43)".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace gpupeak::collector
