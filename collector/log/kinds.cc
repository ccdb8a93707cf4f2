#include "collector/log/kinds.h"

#include <array>

namespace gpupeak::collector {
namespace {

struct KindInfo {
  std::string_view path;
  bool in_sum;
};

constexpr std::array<KindInfo, GPUPEAK_KIND_LIMIT> make_kinds() {
  std::array<KindInfo, GPUPEAK_KIND_LIMIT> kinds{};
  kinds[GPUPEAK_KIND_HEAP] = {"host.heap", true};
  kinds[GPUPEAK_KIND_MMAP_ANON] = {"host.mmap_anon", true};
  kinds[GPUPEAK_KIND_MMAP_FILE] = {"host.mmap_file", false};
  kinds[GPUPEAK_KIND_BACKING] = {"host.backing", false};
  kinds[GPUPEAK_KIND_DRIVER] = {"host.driver", false};
  kinds[GPUPEAK_KIND_PINNED] = {"host.pinned", true};
  kinds[GPUPEAK_KIND_REGISTERED] = {"host.registered", false};
  kinds[GPUPEAK_KIND_HOST_VMM] = {"host.vmm", true};
  kinds[GPUPEAK_KIND_LINEAR] = {"device.linear", true};
  kinds[GPUPEAK_KIND_POOL] = {"device.pool", true};
  kinds[GPUPEAK_KIND_VMM] = {"device.vmm", true};
  kinds[GPUPEAK_KIND_ARRAY] = {"device.array", true};
  kinds[GPUPEAK_KIND_GRAPH] = {"device.graph", true};
  kinds[GPUPEAK_KIND_MANAGED] = {"device.managed", false};
  kinds[GPUPEAK_KIND_IMPORTED] = {"device.imported", false};
  kinds[GPUPEAK_KIND_VMM_VA] = {"device.vmm_va", false};
  return kinds;
}
constexpr auto kKinds = make_kinds();

}  // namespace

uint8_t checked_kind(uint64_t kind) {
  if (kind >= GPUPEAK_KIND_LIMIT || kKinds[kind].path.empty()) return GPUPEAK_KIND_NONE;
  return static_cast<uint8_t>(kind);
}

std::string_view kind_path(uint8_t kind) {
  return kind < GPUPEAK_KIND_LIMIT ? kKinds[kind].path : std::string_view{};
}

std::string_view kind_name(uint8_t kind) {
  const std::string_view path = kind_path(kind);
  return path.substr(path.find('.') + 1);
}

bool counts_into_sum(uint8_t kind) {
  return kind < GPUPEAK_KIND_LIMIT && kKinds[kind].in_sum;
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
