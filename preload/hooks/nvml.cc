// NVML's functions for a device's memory: with a limit they say less.
#include "track/nvml.h"

#include <algorithm>
#include <cstring>

#include "base/elf_lookup.h"
#include "base/kept_errno.h"
#include "hooks/adapters.h"
#include "hooks/export.h"
#include "track/driver.h"
#include "track/limit.h"

GPUPEAK_EXPORT int nvmlDeviceGetMemoryInfo(void* device, void* info);
GPUPEAK_EXPORT int nvmlDeviceGetMemoryInfo_v2(void* device, void* info);

namespace gpupeak::preload {
namespace {

constexpr const char* kLibrary = "libnvidia-ml.so";
constexpr const char* kName = "nvmlDeviceGetMemoryInfo";
constexpr const char* kName2 = "nvmlDeviceGetMemoryInfo_v2";
constexpr int kFunctionNotFound = 13;

// From nvml.h, which not every toolkit has.
struct Memory {
  uint64_t total, free, used;
};
template <typename Info>
using Ask = int (*)(void*, Info*);

template <typename Info>
Ask<Info> real_function(const char* name) {
  return reinterpret_cast<Ask<Info>>(find_in(kLibrary, name));
}

/// The bytes of the real card that programs can have. NVML's total includes the driver's own
/// reserve, which the first form of the call does not give.
uint64_t usable(void*, const NvmlMemoryV2& info) {
  return info.total - info.reserved;
}
uint64_t usable(void* device, const Memory& info) {
  NvmlMemoryV2 whole;
  const auto ask = real_function<NvmlMemoryV2>(kName2);
  return ask != nullptr && ask(device, &whole) == kNvmlSuccess ? usable(device, whole) : info.total;
}

template <typename Info>
int memory_info(const char* name, void* device, Info* info, const void* caller) {
  KeptErrno program_errno;
  const auto real = real_function<Info>(name);
  if (real == nullptr) return kFunctionNotFound;
  // NVML may call its own functions by their exported names.
  if (!has_limits() || is_in(caller, kLibrary)) return program_errno.call(real, device, info);
  const int ordinal = device_of_nvml(device);
  int result = kNvmlSuccess;
  uint64_t ballast = 0;
  with_steady_ballast(
      ordinal,
      [&] {
        result = program_errno.call(real, device, info);
        return true;
      },
      ballast);
  if (result == kNvmlSuccess && info != nullptr) {
    const uint64_t all = usable(device, *info), hidden = all - limit_of(ordinal, all);
    info->total -= hidden;
    info->used -= std::min(info->used, ballast);
    info->free = info->free + ballast - std::min(info->free + ballast, hidden);
  }
  return result;
}

bool is_nvml_entry(const char* name) {
  return strcmp(name, kName) == 0 || strcmp(name, kName2) == 0;
}

/// Without the real library the program must not find our exports in its place.
void* nvml(Dlsym real, void* handle, const char* name) {
  void* const found = behind_us(real, handle, name);
  if (found == nullptr || !has_limits() || !is_in(found, kLibrary)) return found;
  return strcmp(name, kName) == 0 ? reinterpret_cast<void*>(&nvmlDeviceGetMemoryInfo)
                                  : reinterpret_cast<void*>(&nvmlDeviceGetMemoryInfo_v2);
}

}  // namespace

const Adapter kNvmlAdapter{
    .of = "NVML, where a device has a limit", .wants = is_nvml_entry, .replace = nvml};

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

int nvmlDeviceGetMemoryInfo(void* device, void* info) {
  return memory_info(kName, device, static_cast<Memory*>(info), __builtin_return_address(0));
}

int nvmlDeviceGetMemoryInfo_v2(void* device, void* info) {
  return memory_info(kName2, device, static_cast<NvmlMemoryV2*>(info), __builtin_return_address(0));
}
