// Why a request for memory was refused, from the figures of that moment alone. A cause is something
// without which the request would have been served; where the figures prove none, none is named.
// analyze() calls it; verdict, report and JSON print it in the words of run_text.h.
#pragma once

#include <optional>
#include <string_view>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// The result of a request for which there was no memory. Other results have other reasons.
inline constexpr std::string_view kOutOfMemory = "CUDA_ERROR_OUT_OF_MEMORY";
/// The same for the machine's memory.
inline constexpr std::string_view kNoHostMemory = "ENOMEM";
inline bool found_no_memory(const OutOfMemory& oom) {
  return oom.result == kOutOfMemory || oom.result == kNoHostMemory;
}

/// Fills `oom.causes` and `oom.parts` from its other fields.
void find_causes(OutOfMemory& oom);
/// Bytes of the card that other processes had then; nullopt: not known.
std::optional<uint64_t> others_bytes(const OutOfMemory& oom);
/// The bytes that the driver had to find, in whole pages of its own. If an arena asked the driver:
/// the bytes of that request.
uint64_t needed_of_driver(const OutOfMemory& oom);

}  // namespace gpupeak::collector
