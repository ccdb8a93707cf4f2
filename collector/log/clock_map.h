// Converts ticks to nanoseconds, by straight lines between the instants of which the log has both.
// LogReader fills it; whatever shows a time uses it.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
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
  ClockMap(bool ticks_are_ns, uint64_t start_ticks, uint64_t start_ns)
      : ticks_are_ns_(ticks_are_ns), start_ns_(start_ns), pairs_{{start_ticks, start_ns}} {}

  void add_pair(uint64_t ticks, uint64_t monotonic_ns) { pairs_.push_back({ticks, monotonic_ns}); }
  /// Sorts the pairs and drops those that would make time run backwards. Call once, after the last
  /// add_pair and before to_ns.
  void finish() {
    const Pair start = pairs_.front();
    std::ranges::sort(pairs_, {}, &Pair::ticks);
    std::vector<Pair> kept{start};
    for (const Pair& pair : pairs_) {
      const Pair& last = kept.back();
      if (pair.ticks <= last.ticks || pair.ns < last.ns) continue;
      const double ns_per_tick =
          static_cast<double>(pair.ns - start.ns) / static_cast<double>(pair.ticks - start.ticks);
      if (ns_per_tick < kMinNsPerTick || ns_per_tick > kMaxNsPerTick) continue;
      kept.push_back(pair);
    }
    pairs_ = std::move(kept);
  }

  /// Nanoseconds since the start; 0 for anything before it.
  int64_t to_ns(uint64_t ticks) const {
    const Pair& first = pairs_.front();
    if (ticks <= first.ticks) return 0;
    if (ticks_are_ns_)
      return static_cast<int64_t>(std::min<uint64_t>(ticks - first.ticks, INT64_MAX));
    auto next = std::ranges::upper_bound(pairs_, ticks, {}, &Pair::ticks);
    const Pair& before = *std::prev(next);
    double per_tick = slope();
    if (next != pairs_.end())
      per_tick = static_cast<double>(next->ns - before.ns) /
                 static_cast<double>(next->ticks - before.ticks);
    const double ns = static_cast<double>(before.ns - start_ns_) +
                      static_cast<double>(ticks - before.ticks) * per_tick;
    return static_cast<int64_t>(std::min(ns, kMaxNs));
  }
  /// The inverse of to_ns(), to a tick. All lines have nearly the same slope, so each step makes
  /// the difference thousands of times smaller.
  uint64_t to_ticks(int64_t ns) const {
    constexpr int kSteps = 4;
    const uint64_t start = pairs_.front().ticks;
    const double ticks_per_ns = 1 / std::clamp(slope(), kMinNsPerTick, kMaxNsPerTick);
    double ticks = static_cast<double>(ns) * ticks_per_ns;
    for (int step = 0; step < kSteps; ++step) {
      const int64_t there = to_ns(start + static_cast<uint64_t>(std::max(ticks, 0.0)));
      ticks += static_cast<double>(ns - there) * ticks_per_ns;
    }
    return start + static_cast<uint64_t>(std::max(ticks, 0.0));
  }
  /// Ticks from the first pair to the last: how long the log is known to be.
  uint64_t span_ticks() const { return pairs_.back().ticks - pairs_.front().ticks; }
  /// How many ticks one second has, about.
  uint64_t ticks_per_second() const {
    const double per_tick = slope();
    return static_cast<uint64_t>(static_cast<double>(kNsPerSecond) /
                                 std::clamp(per_tick, kMinNsPerTick, kMaxNsPerTick));
  }

 private:
  static constexpr uint64_t kNsPerSecond = 1'000'000'000;
  /// No clock ticks slower or faster than this; pairs that say so are damaged.
  static constexpr double kMinNsPerTick = 1e-2, kMaxNsPerTick = 1e4;
  static constexpr double kMaxNs = 9e18;
  struct Pair {
    uint64_t ticks, ns;
  };
  /// Nanoseconds for each tick, over the whole log.
  double slope() const {
    const Pair& first = pairs_.front();
    const Pair& last = pairs_.back();
    if (ticks_are_ns_ || last.ticks == first.ticks) return 1.0;
    return static_cast<double>(last.ns - first.ns) / static_cast<double>(last.ticks - first.ticks);
  }

  bool ticks_are_ns_;
  uint64_t start_ns_;
  std::vector<Pair> pairs_;
};

}  // namespace gpupeak::collector
