// Writes into a log from outside, while its process runs: marks, and phases of the process. It
// takes the place of each chunk in the counters page, as the preload does for its own chunks, so
// that neither side waits for the other. Used by the verbs `mark` and `run`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collector/files/regular_file.h"

namespace gpupeak::collector {

/// The path of the log that the process writes now; empty if it writes none. Throws UsageError if
/// there is no such process or it may not be looked at.
std::string log_of_process(int pid);

class LogAppender {
 public:
  /// Throws LogError if the file is no log that can be written.
  explicit LogAppender(const std::string& path);

  /// Writes a mark with the time now. Throws LogError if the file cannot grow.
  void mark(std::string_view name);
  /// Begins the phase `name` of the process, and ends the one that this appender began before.
  /// Throws LogError as mark() does.
  void begin_phase(std::string_view name);
  /// What was resident of the process at an earlier time.
  struct Resident {
    uint64_t monotonic_ns, rss_bytes;
  };
  /// Writes samples, in the order of their times. Throws LogError as mark() does.
  void samples(const std::vector<Resident>& seen);

 private:
  struct Unmap {
    void operator()(void* head) const;
  };
  /// An instant by the log's clock and by the machine's.
  struct Now {
    uint64_t ticks, monotonic_ns;
  };
  void append(uint8_t tag, const std::vector<uint8_t>& fields, const Now& now);
  void new_chunk(const Now& now);
  Now now() const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  Descriptor inside_;
  std::unique_ptr<void, Unmap> head_;  // header and counters page, mapped
  uint64_t cookie_ = 0;
  uint32_t clock_ = 0;  ///< enum gpupeak_clock
  uint32_t slot_ = 0;
  uint64_t sequence_ = 0;
  uint64_t chunk_ = 0;  // offset; 0: none yet
  uint32_t used_ = 0;   // bytes of the chunk
  uint64_t time_ = 0;   // of the last record
  bool phase_is_open_ = false;
};

}  // namespace gpupeak::collector
