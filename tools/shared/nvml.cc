#include "tools/shared/nvml.h"

#include <dlfcn.h>

#include <map>

namespace gpupeak::tools {
namespace {

// The part of nvml.h that is used here, since not every toolkit has that header.
constexpr int kSuccess = 0, kTooSmall = 7;
constexpr uint64_t kNotAvailable = UINT64_MAX;
constexpr unsigned kMostProcesses = 1024;
struct ProcessInfo {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
using Init = int (*)();
using Count = int (*)(unsigned*);
using ByIndex = int (*)(unsigned, void**);
using Text = int (*)(void*, char*, unsigned);
using Processes = int (*)(void*, unsigned*, ProcessInfo*);

template <class Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

bool Nvml::load() {
  if (tried_) return processes_ != nullptr;
  tried_ = true;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto init = find<Init>(library, "nvmlInit_v2");
  const auto count = find<Count>(library, "nvmlDeviceGetCount_v2");
  const auto by_index = find<ByIndex>(library, "nvmlDeviceGetHandleByIndex_v2");
  const auto uuid = find<Text>(library, "nvmlDeviceGetUUID");
  const auto name = find<Text>(library, "nvmlDeviceGetName");
  void* processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (init == nullptr || count == nullptr || by_index == nullptr || uuid == nullptr ||
      name == nullptr || processes == nullptr || init() != kSuccess)
    return false;
  unsigned devices = 0;
  if (count(&devices) != kSuccess) return false;
  for (unsigned i = 0; i < devices; ++i) {
    Device device{};
    char id[96] = {}, model[96] = {};
    if (by_index(i, &device.handle) != kSuccess || uuid(device.handle, id, sizeof id) != kSuccess)
      return false;
    name(device.handle, model, sizeof model);
    device.uuid = id;
    device.name = model;
    devices_.push_back(std::move(device));
  }
  processes_ = processes;
  return true;
}

std::vector<NvmlHeld> Nvml::all() {
  std::vector<NvmlHeld> held;
  if (!load()) return held;
  const auto processes = reinterpret_cast<Processes>(processes_);
  std::vector<ProcessInfo> list(kMostProcesses);
  for (size_t i = 0; i < devices_.size(); ++i) {
    auto count = static_cast<unsigned>(list.size());
    const int result = processes(devices_[i].handle, &count, list.data());
    if (result != kSuccess && result != kTooSmall) continue;
    // A process may be listed once for each instance of a GPU (MIG).
    std::map<unsigned, uint64_t> sums;
    for (unsigned p = 0; result == kSuccess && p < count; ++p) {
      if (list[p].used != kNotAvailable) sums[list[p].pid] += list[p].used;
    }
    for (const auto& [process, bytes] : sums)
      held.push_back({static_cast<pid_t>(process), static_cast<uint32_t>(i), devices_[i].uuid,
                      devices_[i].name, bytes});
  }
  return held;
}

}  // namespace gpupeak::tools
