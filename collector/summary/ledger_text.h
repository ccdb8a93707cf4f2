// The ledger in words, for the writers of text.
#pragma once

#include <string>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// What a row is called in text: "local memory" for "local_memory".
std::string ledger_cause_text(const std::string& cause);

/// "6.03 GiB: 5.29 GiB handed out + 418 MiB context + … + 54.0 MiB unexplained". Rows of less than
/// `least` bytes are left out; the unexplained one only if it is 0.
std::string ledger_sum_text(const LedgerView& view, uint64_t least, const TextStyle& style);

/// "; others 11.2 GiB: pid 17883 python3 5.60 GiB, …; in all 12.0 GiB of the card"; empty if there
/// are none, or nobody knows.
std::string others_text(const LedgerView& view, const TextStyle& style);

/// ": pid 17883 python3 5.60 GiB, …"
std::string others_list(const LedgerView& view, const TextStyle& style);

/// When the driver was asked: "at the peak, +5.72 s", or how near to it: "read 0.2 s before the
/// peak, when 45 of 382 MiB were handed out". `peak`: the device's; nullptr: it had none.
std::string ledger_nearness_text(const LedgerView& view, const Peak* peak, const TextStyle& style);
/// Whether the view's causes are those of the peak.
bool is_of_peak(const LedgerView& view, const Peak* peak);
/// How many percent of what is in use: "53.2"; "–" if a row is larger than the whole, since others
/// are negative.
std::string ledger_percent(const LedgerView& view, int64_t bytes);

}  // namespace gpupeak::collector
