// Watches the processes that descend from the program which `run` started, also those whose parents
// have ended. It reads /proc now and then while the program runs, and finds out which of them did
// not load the library, why, and how much of a GPU they hold by NVML. The program notices nothing:
// no process gets another parent, none is stopped.
//
// A process that lives for less than the time between two looks (kFirstLook at the start,
// kLongestWait later) may be missed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collector/log/run_record.h"
#include "tools/run/memory.h"
#include "tools/run/nvml.h"
#include "tools/run/resident.h"

namespace gpupeak::tools {

class Descendants {
 public:
  static constexpr std::chrono::milliseconds kFirstLook{10}, kLongestWait{200};

  /// Begins to look, in a thread of its own. `library`: file name of the library that they should
  /// load. `memory` is told of all processes until finish().
  Descendants(pid_t program, std::string library, MemoryKills& memory);
  Descendants(const Descendants&) = delete;
  Descendants& operator=(const Descendants&) = delete;
  ~Descendants();

  /// Stops looking, and adds to `record`: processes that did not load the library and used a GPU or
  /// had 16 MiB resident; processes that still run; what was resident of all. Processes that may be
  /// about to end are waited for, at most a second.
  void finish(collector::RunRecord& record);
  /// Ends looking, but for finish(), and returns what was resident of each process over time.
  const std::map<pid_t, RunResident::Curve>& curves();
  /// Adds processes that had the library and 16 MiB or more of their own memory resident, as ones
  /// that were not recorded. `why`: for people. The caller leaves out those that have a log.
  void add_not_recorded(const char* why, collector::RunRecord& record) const;
  /// Counts the others that left no log. `logs`: the pids that have one.
  void count_small(const std::set<pid_t>& logs, collector::RunRecord& record) const;
  /// Whether there is a /proc to look at.
  bool could_look() const { return first_start_ != 0; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Library { kNotKnown, kLoaded, kMissing };
  struct Seen {
    uint64_t start_time = 0;
    uint64_t arguments = 0;  ///< their address; it changes with an exec
    char state = 0;
    std::string name, program;  ///< program: the path that /proc/PID/exe leads to
    Library library = Library::kNotKnown;
    std::string why;
    bool used_gpu = false, may_use_gpu = false;
    uint64_t rss_bytes = 0;
    std::map<std::string, collector::RunRecord::OfDevice> devices;
    Clock::time_point next_check{};
    Clock::duration wait{};
    int checks = 0;
  };

  struct Ended {
    pid_t process;
    std::string name;
    uint64_t rss_bytes;
    bool had_library;
  };

  void stop();
  void watch();
  void look();
  void look_at(pid_t process, std::vector<pid_t>& next);
  void check(pid_t process, Seen& seen);
  bool is_of_another_run(pid_t process) const;
  void forget(std::map<pid_t, Seen>::iterator gone);
  static collector::RunRecord::Unrecorded unrecorded(pid_t process, const Seen& seen);
  void find_orphans(std::chrono::milliseconds most);  ///< `most`: processor time
  pid_t least_pid() const;
  void wait_for_last();
  void ask_nvml();

  const pid_t program_;
  const std::string library_;
  MemoryKills& memory_;
  std::map<pid_t, Seen> seen_;  ///< processes that were there at the last look
  std::vector<Ended> ended_;    ///< those that missing_ does not have
  std::vector<collector::RunRecord::Unrecorded> missing_;  ///< unrecorded ones that have ended
  const Clock::time_point began_ = Clock::now();
  uint64_t first_start_ = 0;
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
