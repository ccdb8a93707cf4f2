#include "collector/rules/library_domains.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace gpupeak::collector {
namespace {

// The names that libraries give them (nvtxDomainCreate in their sources), in lower case. TensorRT
// is not among them: its ranges are the model's layers.
constexpr std::array<std::string_view, 11> kLibraryDomains = {
    "cccl",     "cublas",  "cudnn", "cufft",   "cusolver", "cusparse",
    "cutensor", "libcudf", "nccl",  "nvshmem", "tsl"};

}  // namespace

bool is_library_domain(std::string_view domain) {
  const auto same = [domain](std::string_view name) {
    return std::equal(domain.begin(), domain.end(), name.begin(), name.end(), [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    });
  };
  return std::any_of(kLibraryDomains.begin(), kLibraryDomains.end(), same);
}

}  // namespace gpupeak::collector
