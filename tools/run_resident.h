// What is resident of a run's processes, by the kernel's lists, read from outside whenever there is
// more than before: a program that only touches what it has, threads that end and give their stacks
// back, and pages that several processes share are seen by nobody inside. Used by `run`.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/log/run_record.h"

namespace gpupeak::tools {

class RunResident {
 public:
  /// A process that lives, and what the kernel counts as resident of it.
  void note(pid_t process, uint64_t start_time, uint64_t rss_bytes);
  /// Of all that were noted since the last call: reads the lists of those that have a good part
  /// more than before, or somewhat more for a while, and their proportional parts where together
  /// they have. Since there must be more each time there are some hundred readings of a process.
  /// Reading takes a sixteenth of a processor at most, and of small processes (a build has
  /// hundreds) a four-hundredth. Tells what it took.
  std::chrono::nanoseconds look();

  /// What there was at the highest of each, and of all together.
  void add_to(collector::RunRecord& record) const;

 private:
  struct Noted {
    uint64_t start_time = 0, rss_bytes = 0;
  };
  struct Known {
    uint64_t start_time = 0;
    std::optional<collector::RunRecord::Resident> highest;
    uint64_t rss_bytes = 0;                         ///< as it was noted last
    std::chrono::steady_clock::time_point since{};  ///< it has been that
    uint64_t read_bytes = 0;  ///< the last of these for which the list was read
  };
  struct Budget {
    std::chrono::nanoseconds spent{};
    std::chrono::steady_clock::time_point next{};  ///< when reading may begin again
  };
  std::chrono::nanoseconds look_at_those(Budget& budget, bool are_large);
  void look_at(pid_t process, const Noted& noted);
  void look_at_all();
  void leave_out_borrowed();

  std::map<pid_t, Noted> noted_;
  std::map<pid_t, Known> known_;
  std::map<std::string, uint64_t> static_data_;  ///< of modules, by path: what their files lack
  std::vector<collector::RunRecord::Resident>
      done_;                            ///< of processes whose number is another's now
  uint64_t sum_ = 0, highest_sum_ = 0;  ///< as noted last, and at the last reading of all
  std::chrono::steady_clock::time_point sum_since_{};
  Budget large_, small_;
  std::optional<collector::RunRecord::Together> together_;
};

}  // namespace gpupeak::tools
