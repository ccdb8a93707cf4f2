// How much GPU memory each process has, by NVML. `run` asks for processes that left no log,
// `attach` for the time before the attach, `serve` for all on its machine's cards.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gpupeak::tools {

struct NvmlHeld {
  pid_t process = 0;
  uint32_t index = 0;  ///< of the GPU, as nvidia-smi numbers it
  std::string uuid, name;
  uint64_t bytes = 0;
};

class Nvml {
 public:
  /// All processes on all GPUs. Loads NVML at the first call. Empty if there is no NVML, or if it
  /// does not tell.
  std::vector<NvmlHeld> all();

 private:
  struct Device {
    void* handle;
    std::string uuid, name;
  };
  bool load();

  bool tried_ = false;
  void* processes_ = nullptr;  // NVML's function that lists processes
  std::vector<Device> devices_;
};

}  // namespace gpupeak::tools
