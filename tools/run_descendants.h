// The processes that descend from the program which `run` started, those too whose parents have
// gone: /proc is looked at now and then while the program runs, and what is seen is which of them
// did not load the library, why, and how much NVML says they hold. The program sees nothing of it:
// no process becomes another's parent, none is stopped.
//
// What lives for less than the time between two looks (kFirstLook at its start, kLongestWait later)
// may not be seen.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collector/log/run_record.h"
#include "run_memory.h"
#include "run_nvml.h"
#include "run_resident.h"

namespace gpupeak::tools {

class Descendants {
 public:
  static constexpr std::chrono::milliseconds kFirstLook{10}, kLongestWait{200};

  /// Begins to look, in a thread of its own. `library`: the file name of what they should load.
  /// `memory` is told of all of them until finish().
  Descendants(pid_t program, std::string library, MemoryKills& memory);
  Descendants(const Descendants&) = delete;
  Descendants& operator=(const Descendants&) = delete;
  ~Descendants();

  /// Ends it, and tells what was seen: those that did not load the library, and used a GPU or had
  /// 16 MiB resident; those that are still there; and what was resident of all. What may be about
  /// to end is waited for, a second at most.
  void finish(collector::RunRecord& record);
  /// Of those that were seen with the library: what 16 MiB and more of their own memory were
  /// resident of, as if nobody had recorded it. Whoever has a log is to be left out.
  void add_little_recorded(collector::RunRecord& record) const;
  /// The most that was seen resident of one of them, whatever it left.
  uint64_t largest_rss_bytes() const { return largest_rss_bytes_; }
  /// Whether there is a /proc to look at.
  bool could_look() const { return first_start_ != 0; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Library { kNotKnown, kLoaded, kMissing };
  struct Seen {
    uint64_t start_time = 0;
    uint64_t arguments = 0;  ///< where they lie
    char state = 0;
    std::string name, program;  ///< the program: as /proc/PID/exe leads to it
    Library library = Library::kNotKnown;
    std::string why;
    bool used_gpu = false, may_use_gpu = false;
    uint64_t rss_bytes = 0;
    std::map<std::string, collector::RunRecord::OfDevice> devices;
    Clock::time_point next_check{};
    Clock::duration wait{};
    int checks = 0;
  };

  void watch();
  void look();
  void look_at(pid_t process, std::vector<pid_t>& next);
  void check(pid_t process, Seen& seen);
  void forget(std::map<pid_t, Seen>::iterator gone);
  static collector::RunRecord::Unrecorded told(pid_t process, const Seen& seen);
  void find_orphans(std::chrono::milliseconds most);  ///< of processor time
  void wait_for_last();
  void ask_nvml();

  const pid_t program_;
  const std::string library_;
  MemoryKills& memory_;
  std::map<pid_t, Seen> seen_;           ///< that were there at the last look
  std::map<pid_t, std::string> loaded_;  ///< names of those that had the library and some memory
  std::vector<collector::RunRecord::Unrecorded> missing_;  ///< that have gone
  uint64_t first_start_ = 0, largest_rss_bytes_ = 0;
  Clock::time_point next_orphans_{};
  RunNvml nvml_;
  RunResident resident_;
  std::chrono::nanoseconds resident_cost_{};

  std::mutex lock_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace gpupeak::tools
