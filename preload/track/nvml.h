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
struct NvmlProcesses {
  uint64_t own = 0;     ///< of this process
  uint64_t others = 0;  ///< of all other processes that compute on the device
};

/// Loads the library at the first call. False if it is not there or too old (before driver 510).
bool load_nvml();
/// NVML's handle of a device or a MIG instance; nullptr: not known. `uuid`: 16 bytes, as the CUDA
/// driver gives them.
void* nvml_device(const char* uuid);
bool nvml_memory(void* device, NvmlMemory& memory);
/// Bytes by process. False if NVML does not list this process (in a container it may not see
/// process ids), or while another thread asks.
bool nvml_processes(void* device, NvmlProcesses& processes);
/// In a forked child, where the library must not be used.
void forget_nvml();

}  // namespace gpupeak::preload
