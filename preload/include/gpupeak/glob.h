// Patterns with wildcards: `*` is any text, also none; `?` is one character. Everything else stands
// for itself, also brackets, since C++ names have them. Rules of both sides use it. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpupeak {

/// Whether the pattern matches the whole text.
constexpr bool glob_match(std::string_view pattern, std::string_view text) {
  // `star`: the last `*` that was passed. `taken`: where the text goes on behind what it has taken.
  size_t p = 0, t = 0, star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace gpupeak
