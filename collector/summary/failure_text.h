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
/// "it grows by 56.1 MiB a step, 30 steps: 7 blocks each by …, none freed; the card has room for
/// 1 290 more at most", or "it grows by 23.0 MiB at each train, 60 times: 20.0 MiB by …, 3.00 MiB
/// by …": all that grows at the steps of the row that grew most, of a device or of the host. Empty:
/// there is none, or less than a tenth of what is held. `total`: bytes of the card; 0: not known.
std::string steps_text(const std::vector<GrowthSummary>& growths, std::optional<int32_t> device,
                       uint64_t total, uint64_t held, const TextStyle& style);

}  // namespace gpupeak::collector
