// NVML: what the driver says of a device's memory, whatever context is current and even if there is
// none. Loaded when the process makes its first context. Inside a HookScope, never from within an
// allocator hook.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

struct NvmlMemory {
  uint64_t used = 0;      ///< all processes together, as nvidia-smi shows it: without `reserved`
  uint64_t reserved = 0;  ///< of the driver and the firmware, in no process's name
};
struct NvmlProcesses {
  uint64_t own = 0;     ///< of this process
  uint64_t others = 0;  ///< of all others that compute on the device
};

/// Loads the library at the first call. False if it is not there or too old (before driver 510).
bool load_nvml();
/// `uuid`: 16 bytes, as the CUDA driver gives them; of a device or a MIG instance. nullptr: not
/// known.
void* nvml_device(const char* uuid);
bool nvml_memory(void* device, NvmlMemory& memory);
/// False if NVML does not list this process (in a container it may not see process ids), or while
/// another thread asks.
bool nvml_processes(void* device, NvmlProcesses& processes);
/// In a forked child, where the library must not be used.
void forget_nvml();

}  // namespace gpupeak::preload
