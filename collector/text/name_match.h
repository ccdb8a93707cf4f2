// Patterns with wildcards: `*` is any text, also none; `?` is one character. Everything else stands
// for itself, also brackets, since C++ names have them. Rules use it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// Whether the pattern matches the whole text.
bool glob_match(std::string_view pattern, std::string_view text);
/// Whether any of the patterns does.
bool any_glob_matches(const std::vector<std::string>& patterns, std::string_view text);

/// Whether `word` is one of the words in "read readv recv".
inline bool is_word_of(std::string_view words, std::string_view word) {
  for (size_t at = 0; (at = words.find(word, at)) != words.npos; ++at) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
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
