// How the CSV writers quote.
#pragma once

#include <string>

namespace gpupeak::collector {

/// As RFC 4180 says.
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace gpupeak::collector
