// The kinds of memory (enum gpupeak_kind) and the rules of each: on which side it counts and into
// which sums. Used by replay, the summary and the dump.
#pragma once

#include <cstdint>
#include <string_view>

#include "gpupeak/log_format.h"

namespace gpupeak::collector {

/// A kind read from a log, or GPUPEAK_KIND_NONE for a number that names none.
uint8_t checked_kind(uint64_t kind);

/// "heap", "linear" …: the last part of metric names.
std::string_view kind_name(uint8_t kind);
/// "host.heap", "device.linear" …: the kind of a holder in the summary.
std::string_view kind_path(uint8_t kind);

inline bool is_device_kind(uint8_t kind) {
  return kind >= GPUPEAK_FIRST_DEVICE_KIND && kind < GPUPEAK_KIND_LIMIT;
}
/// Counts into its device's peak, or into the host's; the others are gauges of their own.
bool counts_into_sum(uint8_t kind);

/// "context", "code" …: the last part of the ledger's metric names. "none" for what is none.
std::string_view ledger_cause_name(uint8_t cause);

/// The name of a CUresult that an allocation can fail with; "CUresult N" for rare ones is the
/// caller's business, who gets an empty view.
std::string_view cuda_result_name(uint64_t result);

}  // namespace gpupeak::collector
