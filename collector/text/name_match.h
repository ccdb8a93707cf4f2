// How names are matched: by patterns with wildcards (gpupeak/glob.h), and as what was misspelt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpupeak/glob.h"

namespace gpupeak::collector {

using gpupeak::glob_match;
/// Whether any of the patterns matches the whole text.
bool any_glob_matches(const std::vector<std::string>& patterns, std::string_view text);

/// Whether `word` is one of the words in "read readv recv".
inline bool is_word_of(std::string_view words, std::string_view word) {
  for (size_t at = 0; (at = words.find(word, at)) != words.npos; ++at) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' '))
      return true;
  }
  return false;
}

// Guesses what a misspelt name was meant to be. Messages about unknown names end with it, instead
// of a list of all names.

/// The names most like `word`, best first; none if nothing is alike.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& names,
                                 size_t most = 3);

/// "; did you mean x, y or z?" or, if nothing is alike, "; there are a, b, c … (43)".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace gpupeak::collector
