#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "collector/summary/summary.h"

namespace gpupeak::collector {
namespace {

enum class NoBound : uint8_t { kNone, kMost, kLeast, kBoth };

struct WarningRow {
  WarningCode code = WarningCode::kNone;
  std::string_view name;
  Inexact inexact = Inexact::kNone;
  NoBound no_bound = NoBound::kNone;
};

constexpr WarningRow kWarningRows[] = {
#define GPUPEAK_WARNING(code, name, inexact, no_bound) \
  {WarningCode::k##name, #name, Inexact::k##inexact, NoBound::k##no_bound},
#include "collector/summary/warning_codes.def"
#undef GPUPEAK_WARNING
};

WarningRow row_of(WarningCode code) {
  const auto* const row = std::ranges::find(kWarningRows, code, &WarningRow::code);
  return row == std::end(kWarningRows) ? WarningRow{} : *row;
}

}  // namespace

Inexact inexact_by(WarningCode code) {
  return row_of(code).inexact;
}

bool keeps_lower_bound(WarningCode code) {
  const NoBound lost = row_of(code).no_bound;
  return lost != NoBound::kLeast && lost != NoBound::kBoth;
}

bool keeps_upper_bound(WarningCode code) {
  const NoBound lost = row_of(code).no_bound;
  return lost != NoBound::kMost && lost != NoBound::kBoth;
}

std::string code_text(WarningCode code) {
  return fmt::format("GP{:03}", static_cast<unsigned>(code));
}

std::string phrase_of(WarningCode code) {
  const std::string_view name = row_of(code).name;
  if (name.empty()) return code_text(code);
  std::string phrase;
  for (const char c : name) {
    const bool begins_word = c >= 'A' && c <= 'Z';
    if (begins_word && !phrase.empty()) phrase += ' ';
    phrase += begins_word ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return phrase;
}

}  // namespace gpupeak::collector
