// What `run` sees of its processes from outside: which there are, and what is resident of them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "collector/log/log_appender.h"
#include "collector/log/run_record.h"
#include "tools/run/memory.h"
#include "tools/run/program_files.h"
#include "tools/shared/nvml.h"

namespace gpupeak::tools {

// What is resident of a run's processes, by the kernel's lists of mappings. They are read from
// outside, whenever more is resident than before. From inside nobody sees a program that only
// touches memory, threads that end and give their stacks back, or which pages several processes
// share.

/// Of a process without a log: as much of it is worth a word.
inline constexpr uint64_t kWorthWords = 16 << 20;

/// Of what a process had resident: neither files nor pages that others have by fork, too.
uint64_t bytes_of_its_own(const collector::RunRecord::Resident& seen);

class RunResident {
 public:
  /// A process that lives, and the bytes that the kernel counts as resident of it. `looks_itself`:
  /// its list is not to be read now.
  void note(pid_t process, uint64_t start_time, uint64_t rss_bytes, bool looks_itself);
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
    bool looks_itself = false;
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

/// Watches the processes that descend from the program which `run` started, also those whose
/// parents have ended. It reads /proc now and then while the program runs, and finds out which of
/// them did not load the library, why, and how much of a GPU they hold by NVML. The program notices
/// nothing: no process gets another parent, none is stopped.
///
/// A process that lives for less than the time between two looks (kFirstLook at the start,
/// kLongestWait later) may be missed.
class Descendants {
 public:
  static constexpr std::chrono::milliseconds kFirstLook{10}, kLongestWait{200};

  /// Begins to look, in a thread of its own. `library`: file name of the library that they should
  /// load. `memory` is told of all processes until finish().
  Descendants(pid_t program, std::string library, MemoryKills& memory);

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
  collector::SymbolSearch gone_programs() const { return files_.gone(); }
  /// Whether there is a /proc to look at.
  bool could_look() const { return first_start_ != 0; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Library { kNotKnown, kLoaded, kMissing };
  /// Of the program that it runs now.
  struct Checked {
    Library library = Library::kNotKnown;
    Clock::time_point next_check{};
    Clock::duration wait = kFirstLook;
    int checks = 0;
  };
  struct Seen : Checked {
    uint64_t start_time = 0;
    uint64_t arguments = 0;  ///< their address; it changes with an exec
    char state = 0;
    std::string name, program;  ///< program: the path that /proc/PID/exe leads to
    std::string why;
    bool used_gpu = false, may_use_gpu = false, of_another_run = false;
    uint64_t rss_bytes = 0;
    std::map<std::string, collector::RunRecord::OfDevice> devices;
  };

  struct Ended {
    pid_t process;
    std::string name;
    uint64_t rss_bytes;
    bool had_library;
  };

  void stop();
  void watch(const std::stop_token& stop);
  void look();
  void look_at(pid_t process, std::vector<pid_t>& next);
  void check(pid_t process, Seen& seen);
  bool is_of_another_run(pid_t process) const;
  void forget(std::map<pid_t, Seen>::iterator gone);
  void add_missing(pid_t process, const Seen& seen);
  void find_orphans(std::chrono::milliseconds most);  ///< `most`: processor time
  std::vector<pid_t> newer_processes() const;
  void wait_for_last();
  void ask_nvml();

  const pid_t program_;
  const std::string library_;
  MemoryKills& memory_;
  std::map<pid_t, Seen> seen_;  ///< processes that were there at the last look
  std::vector<Ended> ended_;    ///< those that missing_ does not have
  std::vector<collector::RunRecord::Unrecorded> missing_;  ///< unrecorded ones that have ended
  ProgramFiles files_;
  const Clock::time_point began_ = Clock::now();
  uint64_t first_start_ = 0;
  Clock::time_point next_orphans_{};
  Nvml nvml_;
  RunResident resident_;
  std::chrono::nanoseconds resident_cost_{};

  std::mutex lock_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace gpupeak::tools
