// The ledger in words, for the writers of text.
#pragma once

#include <string>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// "local memory" for "local_memory": what a row is called in text.
std::string ledger_cause_text(const std::string& cause);

/// "6.03 GiB: 5.29 GiB handed out + 418 MiB context + … + 54.0 MiB unexplained"; rows of less than
/// `least` bytes are left out, also the unexplained one if it is 0.
std::string ledger_sum_text(const LedgerView& view, uint64_t least, const TextStyle& style);

/// When it was read: "at the peak, +5.72 s", or how near: "read 0.2 s before the peak, when 45 of
/// 382 MiB were handed out". `peak`: of the device; nullptr: it had none.
std::string ledger_nearness_text(const LedgerView& view, const Peak* peak, const TextStyle& style);
/// Whether its causes are those of the peak.
bool is_of_peak(const LedgerView& view, const Peak* peak);
/// "53.2" of what is in use; "–" where a row is larger than the whole, others being negative.
std::string ledger_percent(const LedgerView& view, int64_t bytes);

}  // namespace gpupeak::collector
