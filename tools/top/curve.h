// Memory over time as lines of text.
#pragma once

#include "tools/top/program.h"
#include "tools/top/text.h"

namespace gpupeak::tools {

/// Width of the label in front of each line of a program's page.
inline constexpr size_t kTopLabelColumns = 11;

/// The curve, as wide as `style` says. Each column shows the largest value of its time. Empty if
/// there are fewer than two points.
TopLines curve_text(const TopCurve& curve, const collector::TextStyle& style);

}  // namespace gpupeak::tools
