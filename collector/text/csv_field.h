// How the CSV writers quote.
#pragma once

#include <string>

namespace gpupeak::collector {

/// A field as RFC 4180 has it. A text that begins like a formula gets an apostrophe in front, since
/// spreadsheets would run it, whoever wrote it.
inline std::string csv_field(const std::string& text) {
  constexpr const char* kFormulas = "=+-@\t\r";
  const bool is_formula =
      !text.empty() && std::string(kFormulas).find(text[0]) != std::string::npos;
  const std::string safe = is_formula ? "'" + text : text;
  if (safe.find_first_of(",\"\r\n") == std::string::npos) return safe;
  std::string quoted = "\"";
  for (const char c : safe) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace gpupeak::collector
