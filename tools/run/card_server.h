// Keeps NVML open for the run's processes, in a process of its own (preload/track/card_server.h),
// so that none of them pays for its begin and end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "collector/files/regular_file.h"

namespace gpupeak::tools {

class CardServer {
 public:
  /// Processes can ask from here on; start() is for their answers. `run_id`: as GPUPEAK_RUN_ID.
  CardServer(std::string library, uint64_t run_id);
  /// A child of ours waits until a process uses CUDA, and becomes the server then. If there can be
  /// none, processes open NVML themselves.
  void start();
  /// Waits for its end, which takes milliseconds from stop() on.
  ~CardServer();
  CardServer(const CardServer&) = delete;
  CardServer& operator=(const CardServer&) = delete;
  void stop() const;

 private:
  std::string library_;
  collector::Descriptor socket_;
  pid_t process_ = -1;
};

}  // namespace gpupeak::tools
