// Keeps NVML open for the run's processes, in a process of its own (preload/track/card_server.h),
// so that none of them pays for its begin and end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace gpupeak::tools {

class CardServer {
 public:
  /// A child of ours waits until a process uses CUDA, and becomes the server then. `run_id`: as
  /// GPUPEAK_RUN_ID. If there can be none, processes open NVML themselves.
  CardServer(const std::string& library, uint64_t run_id);
  /// Waits for its end, which takes milliseconds from stop() on.
  ~CardServer();
  CardServer(const CardServer&) = delete;
  CardServer& operator=(const CardServer&) = delete;
  void stop() const;

 private:
  pid_t process_ = -1;
};

}  // namespace gpupeak::tools
