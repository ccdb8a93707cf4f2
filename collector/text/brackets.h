// Brackets in names of C++ and Rust functions.
#pragma once

#include <string_view>

namespace gpupeak::collector {

/// Has the place of a name, and is not taken for a bracket.
inline constexpr std::string_view kAnonymous = "(anonymous namespace)";

inline bool opens_bracket(char c) {
  return c == '(' || c == '<' || c == '{' || c == '[';
}

/// The place behind the closing partner of the bracket at `at`; npos: it has none.
inline size_t after_bracket(std::string_view text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    const bool arrow_or_shift = (c == '>' || c == '<') && at > 0 &&
                                (text[at - 1] == '-' || text.substr(0, at).ends_with("operator"));
    if (arrow_or_shift) continue;
    if (opens_bracket(c)) ++depth;
    if (c == ')' || c == '>' || c == '}' || c == ']') --depth;
    if (depth == 0) return at + 1;
  }
  return std::string_view::npos;
}

}  // namespace gpupeak::collector
