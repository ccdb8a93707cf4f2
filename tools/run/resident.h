// What is resident of a run's processes, by the kernel's lists of mappings. They are read from
// outside, whenever more is resident than before. From inside nobody sees a program that only
// touches memory, threads that end and give their stacks back, or which pages several processes
// share. Used by `run`.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/log/log_appender.h"
#include "collector/log/run_record.h"

namespace gpupeak::tools {

/// Of a process without a log: as much of it is worth a word.
inline constexpr uint64_t kWorthWords = 16 << 20;

/// Of what a process had resident: neither files nor pages that others have by fork, too.
uint64_t bytes_of_its_own(const collector::RunRecord::Resident& seen);

class RunResident {
 public:
  /// A process that lives, and the bytes that the kernel counts as resident of it.
  void note(pid_t process, uint64_t start_time, uint64_t rss_bytes);
  /// Reads the lists of those processes noted since the last call that have much more than before,
  /// or somewhat more for a while. If all together have much more, it reads the proportional parts
  /// of all. Since there must be more each time, a process is read some hundred times at most.
  /// Reading takes at most a 64th of a processor: meanwhile the process waits where it maps memory.
  /// For processes below 256 MiB it takes a sixteenth at first, 20 ms in all, and then a
  /// four-hundredth: a build has hundreds of them. Returns the processor time that it took.
  std::chrono::nanoseconds look();

  /// What was resident of a process at each look, in the order of their times.
  struct Curve {
    uint64_t start_time = 0;  ///< of the process
    std::vector<collector::LogAppender::Resident> points;
    uint64_t apart_ns = 0;  ///< points that are nearer are left out
  };
  const std::map<pid_t, Curve>& curves() const { return curves_; }

  /// Adds what was resident when each process had most, and when all together had.
  void add_to(collector::RunRecord& record) const;

 private:
  struct Noted {
    uint64_t start_time = 0, rss_bytes = 0;
  };
  struct Known {
    uint64_t start_time = 0;
    std::optional<collector::RunRecord::Resident> highest;
    uint64_t rss_bytes = 0;                         ///< as noted last
    std::chrono::steady_clock::time_point since{};  ///< since when rss_bytes has not changed
    uint64_t read_bytes = 0;                        ///< rss_bytes when the list was read last
  };
  struct Budget {
    std::chrono::nanoseconds spent{};
    std::chrono::steady_clock::time_point next{};  ///< when reading may begin again
  };
  std::chrono::nanoseconds look_at_those(Budget& budget, bool are_large);
  void look_at(pid_t process, const Noted& noted);
  void look_at_all();
  void leave_out_borrowed();

  void add_to_curve(pid_t process, const Noted& noted);

  std::map<pid_t, Noted> noted_;
  std::map<pid_t, Curve> curves_;
  std::map<pid_t, Known> known_;
  /// By module's path: bytes that its file does not have.
  std::map<std::string, uint64_t> static_data_;
  /// Of processes whose pid another process has now.
  std::vector<collector::RunRecord::Resident> done_;
  uint64_t sum_ = 0, highest_sum_ = 0;  ///< as noted last; when all were read last
  std::chrono::steady_clock::time_point sum_since_{};
  Budget large_, small_;
  std::optional<collector::RunRecord::Together> together_;
};

}  // namespace gpupeak::tools
