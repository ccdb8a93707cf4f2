// Memory over time as lines of text.
#pragma once

#include "top_program.h"
#include "top_text.h"

namespace gpupeak::tools {

/// What stands before each line of a program's page.
inline constexpr size_t kTopLabelColumns = 11;

/// As wide as `style` says; each column shows the largest value of its time. Nothing if there are
/// less than two points.
TopLines curve_text(const TopCurve& curve, const collector::TextStyle& style);

}  // namespace gpupeak::tools
