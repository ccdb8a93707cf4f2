// Converts ticks to nanoseconds, by straight lines between the instants of which the log has both.
// LogReader fills it; whatever shows a time uses it.
#pragma once

#include <time.h>

#include <cstdint>
#include <vector>

namespace gpupeak::collector {

/// One of the kernel's clocks, in nanoseconds.
inline uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

class ClockMap {
 public:
  /// `start_ticks` and `start_ns` name one instant; times are relative to it.
  ClockMap(bool ticks_are_ns, uint64_t start_ticks, uint64_t start_ns);

  void add_pair(uint64_t ticks, uint64_t monotonic_ns);
  /// Sorts the pairs and drops those that would make time run backwards. Call once, after the last
  /// add_pair and before to_ns.
  void finish();

  /// Nanoseconds since the start; 0 for anything before it.
  int64_t to_ns(uint64_t ticks) const;
  /// The inverse of to_ns(), to a tick.
  uint64_t to_ticks(int64_t ns) const;
  /// Ticks from the first pair to the last: how long the log is known to be.
  uint64_t span_ticks() const { return pairs_.back().ticks - pairs_.front().ticks; }
  /// How many ticks one second has, about.
  uint64_t ticks_per_second() const;

 private:
  struct Pair {
    uint64_t ticks, ns;
  };
  double slope() const;  // nanoseconds for each tick, over the whole log

  bool ticks_are_ns_;
  uint64_t start_ns_;
  std::vector<Pair> pairs_;
};

}  // namespace gpupeak::collector
