// What each warning says about the figures, from warning_codes.def.
//
// in    WarningCode::kLogLimitReached
// out   "GP033"; only figures that the heap is a part of are inexact; bounds of device memory hold
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpupeak::collector {

/// 7 for "GP007"; 0: the text is no code.
constexpr uint16_t warning_number(std::string_view text) {
  constexpr size_t kDigits = 3;
  if (text.size() != 2 + kDigits || !text.starts_with("GP")) return 0;
  unsigned number = 0;
  for (const char c : text.substr(2)) {
    if (c < '0' || c > '9') return 0;
    number = number * 10 + static_cast<unsigned>(c - '0');
  }
  return static_cast<uint16_t>(number);
}

/// A code may be in no row: a newer gpupeak wrote the report from which it is read.
enum class WarningCode : uint16_t {
  kNone = 0,
#define GPUPEAK_WARNING(code, name, inexact, no_bound) k##name = warning_number(#code),
#include "collector/summary/warning_codes.def"
#undef GPUPEAK_WARNING
};

/// Which figures are not exact any more; kLost: all, since events are missing.
enum class Inexact : uint8_t { kNone, kHeap, kAll, kLost };
Inexact inexact_by(WarningCode code);

/// Whether the lower, or the upper, bound of what a device needs still holds with this warning.
bool keeps_lower_bound(WarningCode code);
bool keeps_upper_bound(WarningCode code);

/// "GP007".
std::string code_text(WarningCode code);
/// "log could not grow"; "GP999" for one that this gpupeak does not know.
std::string phrase_of(WarningCode code);
inline WarningCode parse_warning_code(std::string_view text) {
  return static_cast<WarningCode>(warning_number(text));
}

}  // namespace gpupeak::collector
