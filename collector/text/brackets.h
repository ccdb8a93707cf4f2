// Brackets in names of functions, of C++ and of Rust.
#pragma once

#include <string_view>

namespace gpupeak::collector {

/// A name, not a bracket.
inline constexpr std::string_view kAnonymous = "(anonymous namespace)";

inline bool opens_bracket(char c) {
  return c == '(' || c == '<' || c == '{' || c == '[';
}

/// The end of the bracket that opens at `at`, after its closing partner; npos if there is none.
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
