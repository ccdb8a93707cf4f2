// The names of memory kinds (gpupeak/memory_kinds.h has the rules of each), of the ledger's causes
// and of the driver's results. Used by replay, the summary and the dump.
#pragma once

#include <cstdint>
#include <string_view>

#include "gpupeak/memory_kinds.h"

namespace gpupeak::collector {

/// A kind read from a log, or GPUPEAK_KIND_NONE for a number that names none.
uint8_t checked_kind(uint64_t kind);

/// "heap", "linear" …: the last part of metric names.
std::string_view kind_name(uint8_t kind);
/// "host.heap", "device.linear" …: the kind of a holder in the summary.
std::string_view kind_path(uint8_t kind);

/// "context", "code" …: the last part of the ledger's metric names. "none" for a number that names
/// no cause.
std::string_view ledger_cause_name(uint8_t cause);

/// The name of a CUresult that an allocation can fail with. Empty for rare ones: the caller then
/// writes "CUresult N".
std::string_view cuda_result_name(uint64_t result);

}  // namespace gpupeak::collector
