#include "track/nvml.h"

#include <atomic>
#include <initializer_list>

#include "base/hook_scope.h"
#include "base/loader.h"
#include "base/syscalls.h"
#include "base/text.h"

namespace gpupeak::preload {
namespace {

// The part of nvml.h that is used here, since not every toolkit has that header.
constexpr int kSuccess = 0;
constexpr uint64_t kNotAvailable = ~uint64_t{0};
struct MemoryV2 {
  unsigned version;
  uint64_t total, reserved, free, used;
};
constexpr unsigned kMemoryV2 = sizeof(MemoryV2) | (2u << 24);
struct ProcessInfo {
  unsigned pid;
  uint64_t used;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned kMaxProcesses = 256;

int (*g_init)();
int (*g_by_uuid)(const char*, void**);
int (*g_memory)(void*, MemoryV2*);
int (*g_processes)(void*, unsigned*, ProcessInfo*);

enum class State : uint8_t { kUntried, kReady, kMissing };
constinit State g_state = State::kUntried;

constinit std::atomic<bool> g_list_in_use{false};

/// Claims what the flag guards. A second thread does not get it, and does not wait.
class InUse {
 public:
  explicit InUse(std::atomic<bool>& flag) : flag_(flag), is_ours_(!flag.exchange(true)) {}
  ~InUse() {
    if (is_ours_) flag_ = false;
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  bool is_ours() const { return is_ours_; }

 private:
  std::atomic<bool>& flag_;
  const bool is_ours_;
};

State open() {
  const LibraryScope inside;
  void* const library = load_library("libnvidia-ml.so.1");
  const bool complete = find_symbol(library, "nvmlInit_v2", g_init) &&
                        find_symbol(library, "nvmlDeviceGetHandleByUUID", g_by_uuid) &&
                        find_symbol(library, "nvmlDeviceGetMemoryInfo_v2", g_memory);
  if (!complete || g_init() != kSuccess) return State::kMissing;
  find_symbol(library, "nvmlDeviceGetComputeRunningProcesses_v3", g_processes);
  return State::kReady;
}

}  // namespace

bool load_nvml() {
  if (g_state == State::kUntried) g_state = open();
  return g_state == State::kReady;
}

void* nvml_device(const char* uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  const LibraryScope inside;
  for (const char* prefix : {"GPU-", "MIG-"}) {
    Text<64> name;
    name.add(prefix);
    for (int i = 0; i < 16; ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) name.add("-");
      const auto byte = static_cast<unsigned char>(uuid[i]);
      const char pair[] = {kDigits[byte >> 4], kDigits[byte & 15]};
      name.add({pair, sizeof pair});
    }
    void* device = nullptr;
    if (g_by_uuid(name.c_str(), &device) == kSuccess) return device;
  }
  return nullptr;
}

bool nvml_memory(void* device, NvmlMemory& memory) {
  const LibraryScope inside;
  MemoryV2 info{.version = kMemoryV2, .total = 0, .reserved = 0, .free = 0, .used = 0};
  if (g_memory(device, &info) != kSuccess) return false;
  memory = {.used = info.used, .reserved = info.reserved};
  return true;
}

bool nvml_processes(void* device, NvmlProcesses& processes) {
  const LibraryScope inside;
  static ProcessInfo list[kMaxProcesses];  // too large for a small stack
  const InUse listing(g_list_in_use);
  unsigned count = kMaxProcesses;
  if (!listing.is_ours() || g_processes == nullptr || g_processes(device, &count, list) != kSuccess)
    return false;
  const auto pid = static_cast<unsigned>(sys::getpid());
  bool found = false;
  processes = {};
  for (unsigned i = 0; i < count && i < kMaxProcesses; ++i) {
    if (list[i].used == kNotAvailable) return false;
    found |= list[i].pid == pid;
    (list[i].pid == pid ? processes.own : processes.others) += list[i].used;
  }
  return found;
}

void forget_nvml() {
  // If the parent never loaded the library, the child may.
  if (g_state != State::kUntried) g_state = State::kMissing;
  g_list_in_use = false;  // the thread that held it is not in the child
}

}  // namespace gpupeak::preload
