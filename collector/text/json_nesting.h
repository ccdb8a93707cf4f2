// How deep the values of a JSON text lie within each other. Asked before a text of others is
// parsed: to copy or write values that lie 100,000 deep takes more stack than there is, and each
// level takes fifty times its two bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpupeak::collector {

inline bool nests_deeper_than(size_t most, std::string_view json) {
  size_t levels = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++levels > most) return true;
    } else if (!in_string && (c == ']' || c == '}') && levels > 0) {
      --levels;
    }
  }
  return false;
}

}  // namespace gpupeak::collector
