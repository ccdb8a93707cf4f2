// What this thread has taken of a processor: on a busy machine the clock goes on while it waits.
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
