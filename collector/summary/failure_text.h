// What is said of a failed allocation: why, with the figures that prove it, and what would help.
#pragma once

#include <string>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// One sentence: the cause, or what is known where the figures prove none. Empty for what failed
/// for another reason than memory.
std::string why_text(const OutOfMemory& oom, const TextStyle& style);
/// What would help against that cause, where there is a setting or a habit; else empty.
std::string help_text(const OutOfMemory& oom, const TextStyle& style);
/// "+3.10 MiB at each step, 99 times, 307 MiB in all: stack".
std::string growth_text(const GrowthSummary& growth, const TextStyle& style);

}  // namespace gpupeak::collector
