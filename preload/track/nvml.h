// NVML says how much of a device's memory is in use, whatever context is current and even if there
// is none. It is loaded when it is first needed, mostly as the process makes its first context.
// Never called from within an allocator hook.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

struct NvmlMemory {
  uint64_t used = 0;      ///< of all processes, as nvidia-smi shows it: without `reserved`
  uint64_t reserved = 0;  ///< by the driver and the firmware, for no process
};
struct NvmlProcess {
  uint32_t pid;           ///< as NVML numbers it: often the host's number
  uint64_t bytes_plus_1;  ///< 0: NVML does not say
};
struct NvmlProcesses {
  static constexpr uint32_t kMost = 64;
  uint32_t count = 0;
  uint64_t rest = 0;  ///< bytes of those beyond kMost
  NvmlProcess list[kMost] = {};
  const NvmlProcess* find(uint32_t pid) const {
    for (uint32_t i = 0; i < count; ++i) {
      if (list[i].pid == pid) return &list[i];
    }
    return nullptr;
  }
};

// The part of nvml.h that is used, since not every toolkit has that header.
constexpr int kNvmlSuccess = 0;
struct NvmlMemoryV2 {
  unsigned version = sizeof(NvmlMemoryV2) | (2u << 24);
  uint64_t total = 0, reserved = 0, free = 0, used = 0;
};

/// How CUDA names a device, or a MIG instance.
struct NvmlCard {
  char uuid[16] = {};
  char bus[32] = {};  ///< its place on the bus; empty: not known
};

/// nullptr: the driver does not say.
const NvmlCard* nvml_card(int device);
/// NVML's handle of a device or a MIG instance, which this process knows by a number; nullptr: not
/// known, or NVML is not there or too old (before driver 510). Opens NVML at the first call, so no
/// lock may be held then.
void* nvml_device(int device, const NvmlCard& card);
bool open_nvml();
bool nvml_was_tried();
/// Most programs use the first device alone.
void start_first_nvml_device();
bool nvml_memory(void* device, NvmlMemory& memory);
/// Which process has how much, for computing and for graphics. Who draws is asked always if
/// `with_graphics`, else only if somebody drew the last time: most cards draw nothing. False if
/// there is no list, or one that cannot be: no process has more than the `most` bytes of the card.
/// One thread at a time.
bool nvml_processes(void* device, uint64_t most, bool with_graphics, NvmlProcesses& processes);
/// In a forked child, where the library must not be used.
void forget_nvml();

}  // namespace gpupeak::preload
