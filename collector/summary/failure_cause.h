// Why a request for memory was refused, from the figures of that moment alone. A cause is one
// without which the request would have been served; where the figures prove none, none is named.
// analyze() calls it; verdict, report and JSON print what failure_text says of it.
#pragma once

#include <optional>
#include <string_view>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// The result of a request that found no memory; others have another reason.
inline constexpr std::string_view kOutOfMemory = "CUDA_ERROR_OUT_OF_MEMORY";
/// The same of the machine.
inline constexpr std::string_view kNoHostMemory = "ENOMEM";
inline bool found_no_memory(const OutOfMemory& oom) {
  return oom.result == kOutOfMemory || oom.result == kNoHostMemory;
}

/// Fills `oom.causes` and `oom.parts` from its other fields.
void find_causes(OutOfMemory& oom);
/// What other processes had of the card then; nullopt: not known.
std::optional<uint64_t> others_bytes(const OutOfMemory& oom);
/// What the driver was short of, in its own pages: of an arena that asked it, what that asked for.
uint64_t needed_of_driver(const OutOfMemory& oom);

}  // namespace gpupeak::collector
