#include "collector/log/kinds.h"

#include <iterator>

namespace gpupeak::collector {
uint8_t checked_kind(uint64_t kind) {
  return memory_kind(kind).path.empty() ? uint8_t{GPUPEAK_KIND_NONE} : static_cast<uint8_t>(kind);
}

std::string_view kind_path(uint8_t kind) {
  return memory_kind(kind).path;
}

std::string_view kind_name(uint8_t kind) {
  const std::string_view path = kind_path(kind);
  return path.substr(path.find('.') + 1);
}

std::string_view ledger_cause_name(uint8_t cause) {
  constexpr std::string_view kNames[] = {"none",   "context", "code",   "local_memory",
                                         "limits", "streams", "peer",   "graph_nodes",
                                         "arrays", "managed", "interop"};
  static_assert(std::size(kNames) == GPUPEAK_LEDGER_LIMIT);
  return cause < std::size(kNames) ? kNames[cause] : kNames[0];
}

std::string_view cuda_result_name(uint64_t result) {
  switch (result) {
    case 1:
      return "CUDA_ERROR_INVALID_VALUE";
    case 2:
      return "CUDA_ERROR_OUT_OF_MEMORY";
    case 3:
      return "CUDA_ERROR_NOT_INITIALIZED";
    case 4:
      return "CUDA_ERROR_DEINITIALIZED";
    case 101:
      return "CUDA_ERROR_INVALID_DEVICE";
    case 201:
      return "CUDA_ERROR_INVALID_CONTEXT";
    case 400:
      return "CUDA_ERROR_INVALID_HANDLE";
    case 700:
      return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case 712:
      return "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED";
    case 719:
      return "CUDA_ERROR_LAUNCH_FAILED";
    case 801:
      return "CUDA_ERROR_NOT_SUPPORTED";
    case 900:
      return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    default:
      return {};
  }
}

}  // namespace gpupeak::collector
