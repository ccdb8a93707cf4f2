// The ledger in words, for the writers of text.
#pragma once

#include <string>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// "local memory" for "local_memory": what a row is called in text.
std::string ledger_cause_text(const std::string& cause);

/// "6,174.0 MiB: 5,412.3 tracked + 418.0 context + … + 54.0 unexplained"; rows of less than `least`
/// bytes are left out, the unexplained one never. `digits`: of the MiB figures.
std::string ledger_sum_text(const LedgerView& view, uint64_t least, int digits);

}  // namespace gpupeak::collector
