// What NVML says of the memory of processes, by their ids. `run` asks it of processes that left no
// log; nothing else of NVML is used there.
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

class RunNvml {
 public:
  /// Loads NVML when it is first asked. Empty where there is none, or it does not tell.
  std::vector<NvmlHeld> all();

 private:
  struct Device {
    void* handle;
    std::string uuid, name;
  };
  bool load();

  bool tried_ = false;
  void* processes_ = nullptr;  // its function
  std::vector<Device> devices_;
};

}  // namespace gpupeak::tools
