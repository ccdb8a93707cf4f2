// Turns the replayed readings of a device into what the reports print.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "collector/log/definitions.h"
#include "collector/replay/ledger.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// Makes the name of one item of the ledger from its cause, its name in the log and its stack.
using LedgerItemName =
    std::function<std::string(uint8_t cause, uint32_t name, uint32_t api, uint32_t stack)>;
using TicksToNs = std::function<int64_t(uint64_t ticks)>;

/// The rows of one reading: they add up to its used bytes.
LedgerView ledger_view(const LedgerSnapshot& snapshot, const TicksToNs& to_ns,
                       const Definitions& definitions);
/// A device's ledger; nullopt if there is no reading. `top`: how many items are listed.
std::optional<DeviceLedgerSummary> summarize_ledger(const DeviceLedger& ledger,
                                                    const TicksToNs& to_ns,
                                                    const Definitions& definitions,
                                                    const LedgerItemName& name_of, size_t top);
/// Adds device.ledger.* and the other metrics of the readings; null if there is no reading.
void add_ledger_metrics(const DeviceLedger* ledger,
                        const std::optional<DeviceLedgerSummary>& summary, Metrics& metrics);

}  // namespace gpupeak::collector
