// Processor time of this thread. Unlike a clock it stands still while the thread waits for a
// processor on a busy machine.
#pragma once

#include <chrono>
#include <ctime>

namespace gpupeak::tools {

inline std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace gpupeak::tools
