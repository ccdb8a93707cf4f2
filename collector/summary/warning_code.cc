#include "collector/summary/warning_code.h"

#include <fmt/format.h>

namespace gpupeak::collector {
namespace {

enum class NoBound : uint8_t { kNone, kMost, kLeast, kBoth };

struct Row {
  WarningCode code = WarningCode::kNone;
  Inexact inexact = Inexact::kNone;
  NoBound no_bound = NoBound::kNone;
};

constexpr Row kRows[] = {
#define GPUPEAK_WARNING(code, name, inexact, no_bound) \
  {WarningCode::k##name, Inexact::k##inexact, NoBound::k##no_bound},
#include "collector/summary/warning_codes.def"
#undef GPUPEAK_WARNING
};

Row row_of(WarningCode code) {
  for (const Row& row : kRows) {
    if (row.code == code) return row;
  }
  return {};
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

}  // namespace gpupeak::collector
