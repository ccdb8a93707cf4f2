// What is said about a failed allocation: why, with the figures that prove it, and what would help.
#pragma once

#include <string>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// One sentence: the cause, or what is known if the figures prove none. Empty if it failed for
/// another reason than memory.
std::string why_text(const OutOfMemory& oom, const TextStyle& style);
/// The setting or habit that would help against that cause; empty: there is none.
std::string help_text(const OutOfMemory& oom, const TextStyle& style);
/// "+3.10 MiB at each step, 99 times, 307 MiB in all: stack".
std::string growth_text(const GrowthSummary& growth, const TextStyle& style);

}  // namespace gpupeak::collector
