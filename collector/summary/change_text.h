// How a difference between two runs is worded. The diff, the gates and their messages use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collector/summary/diff.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// Stands between the first run's figure and the second's.
constexpr std::string_view kChangeArrow = " → ";

/// One line: "+512 MiB  (0 → 512 MiB)  site  [kind]".
std::string change_text(const SiteDiff& site, const TextStyle& style = {});
/// "+9.5 %"; empty if there is nothing to compare with.
std::string change_percent(uint64_t a, uint64_t b);

}  // namespace gpupeak::collector
