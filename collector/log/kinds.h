// The names of memory kinds (gpupeak/memory_kinds.h has the rules of each), of the ledger's causes
// and of the driver's results. Used by replay, the summary and the dump.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "gpupeak/memory_kinds.h"

namespace gpupeak::collector {

/// A kind read from a log, or GPUPEAK_KIND_NONE for a number that names none.
inline uint8_t checked_kind(uint64_t kind) {
  return memory_kind(kind).path.empty() ? uint8_t{GPUPEAK_KIND_NONE} : static_cast<uint8_t>(kind);
}

/// "host.heap", "device.linear" …: the kind of a holder in the summary.
inline std::string_view kind_path(uint8_t kind) {
  return memory_kind(kind).path;
}
/// "heap", "linear" …: the last part of metric names.
inline std::string_view kind_name(uint8_t kind) {
  const std::string_view path = kind_path(kind);
  return path.substr(path.find('.') + 1);
}

/// In the place of a cause: what several together took, which nobody read apart.
inline constexpr uint8_t kSeveralCauses = GPUPEAK_LEDGER_LIMIT;

/// "context", "code" …: the last part of the ledger's metric names. "none" for a number that names
/// no cause.
inline std::string_view ledger_cause_name(uint8_t cause) {
  constexpr std::string_view kNames[] = {"none",   "context", "code",    "local_memory",
                                         "limits", "streams", "peer",    "graph_nodes",
                                         "arrays", "managed", "interop", "several"};
  static_assert(std::size(kNames) == kSeveralCauses + 1);
  return cause < std::size(kNames) ? kNames[cause] : kNames[0];
}

/// The name of a CUresult that an allocation can fail with. Empty for rare ones: the caller then
/// writes "CUresult N".
inline std::string_view cuda_result_name(uint64_t result) {
  constexpr std::pair<uint64_t, std::string_view> kNames[] = {
      {1, "CUDA_ERROR_INVALID_VALUE"},
      {2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {3, "CUDA_ERROR_NOT_INITIALIZED"},
      {4, "CUDA_ERROR_DEINITIALIZED"},
      {101, "CUDA_ERROR_INVALID_DEVICE"},
      {201, "CUDA_ERROR_INVALID_CONTEXT"},
      {400, "CUDA_ERROR_INVALID_HANDLE"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
      {719, "CUDA_ERROR_LAUNCH_FAILED"},
      {801, "CUDA_ERROR_NOT_SUPPORTED"},
      {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}};
  for (const auto& [number, name] : kNames) {
    if (number == result) return name;
  }
  return {};
}

}  // namespace gpupeak::collector
