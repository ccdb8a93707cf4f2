// Every sum of a log over time, in a bounded number of buckets, without losing a peak. It watches
// one replay and needs constant memory. The timeline, the HTML page and comparisons read it.
//
// in    each change of each sum, with its time
// out   for each sum and each bucket: smallest value, largest value, and the events of these and of
//       the last change
//
//   four buckets   0–1 s     1–2 s     2–3 s     3–4 s
//   device:0       0–2 GiB   2–8 GiB   2–3 GiB   1–2 GiB     8 GiB for a millisecond
//
// All sums share the buckets. If the log turns out to be longer than expected, neighbours are
// merged, and from then on a bucket is twice as wide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/replay/replay.h"

namespace gpupeak::collector {

inline constexpr uint64_t kNoEvent = UINT64_MAX;

struct SeriesBucket {
  uint64_t min = 0, max = 0;  ///< bytes
  /// The numbers of the events that reached max and min, and of the last that changed the value;
  /// kNoEvent: none of the bucket did.
  uint64_t max_event = kNoEvent, min_event = kNoEvent, last_event = kNoEvent;
};

struct Series {
  enum class Kind { kSum, kGauge };
  std::string name;  ///< a sum's scope, or a gauge's name: "host.rss", "device:0/pool reserved"
  Kind kind = Kind::kSum;
  std::vector<SeriesBucket> buckets;  ///< begins with first_bucket
  size_t first_bucket = 0;  ///< before it the value is not known, since nobody had read it
  uint64_t current = 0;
};

/// A border in the run: where a phase begins or ends, or an allocation fails.
struct Border {
  uint64_t event = 0;
  bool failure = false;
};

class TimeSeries : public ReplayObserver {
 public:
  static constexpr size_t kBuckets = 2000;
  static constexpr size_t kBorders = 64;

  void after(const Event& event) override;
  /// After the replay: gives every series all buckets.
  void finish(const Replay& replay);

  const std::vector<Series>& series() const { return series_; }
  const Series* find(const std::string& name) const;
  /// The series of an arena, by its number in ArenaTable; nullptr: it never had a block.
  const Series* arena_in_use(size_t arena) const;
  const Series* pool_reserved(size_t arena) const;
  size_t bucket_count() const { return bucket_count_; }
  /// When a bucket begins, in nanoseconds since the start.
  int64_t begin_ns(size_t bucket, const ClockMap& clock) const;
  uint64_t event_count() const { return event_count_; }
  /// The first event at which the series had its largest value.
  static uint64_t peak_event(const Series& series);
  /// For each of so many equal parts of the series: the event that reached its highest value.
  static std::vector<uint64_t> highest_events(const Series& series, size_t parts);
  /// For each part the events that reached its highest and its lowest value, and its last: with
  /// steps between these a curve is right to a part. In order.
  static std::vector<uint64_t> telling_events(const Series& series, size_t parts);
  /// At most kBorders borders of phases, and as many failures. If there are more, only each second,
  /// fourth … one.
  const std::vector<Border>& borders() const { return borders_; }

 private:
  void start(const LogReader& log);
  size_t bucket_at(uint64_t ticks);
  void merge_pairs();
  void find_new_sums();
  void set(Series& series, uint64_t bytes);
  void set_gauge(const std::string& name, uint64_t bytes);
  void read_gauges(uint8_t tag);
  void note_border(const Event& event);
  void set_arenas();
  template <typename Visit>
  void for_each_series(Visit visit) {
    for (Series& series : series_) visit(series);
    for (ArenaSeries& arena : arenas_) {
      visit(arena.in_use);
      visit(arena.reserved);
    }
  }

  struct ArenaSeries {
    Series in_use, reserved;
  };
  std::vector<ArenaSeries> arenas_;  // by arena
  uint64_t segments_version_ = 0;
  std::vector<Series> series_;
  std::vector<size_t> sums_;      // by ScopeId: index into series_
  std::vector<ScopeId> of_heap_;  // the scopes that a heap event changes
  std::vector<Border> borders_;
  uint64_t border_stride_ = 1, border_count_ = 0;
  uint64_t failure_stride_ = 1, failure_count_ = 0;
  uint64_t start_ticks_ = 0;
  uint64_t width_ticks_ = 0;  // of a bucket; 0: start() was not called yet
  uint64_t bucket_end_ticks_ = 0;
  size_t bucket_ = 0;  // bucket of the latest event
  size_t bucket_count_ = 0;
  uint64_t event_count_ = 0;
};

// The phases of a run as bands over a time axis, laid out in lanes so that none covers another.
struct PhaseBand {
  std::string name;
  uint64_t count = 1;
  size_t lane = 0;  ///< 0: outermost
  int64_t begin_ns = 0, end_ns = 0;
  /// The begin and end of each repetition, in order. Empty if there is only one, or more than are
  /// kept.
  std::vector<std::pair<int64_t, int64_t>> instances;

  /// The name, with the number of repetitions if there are several.
  std::string label() const;
};

/// The bands by begin, callers before what they contain. At most `max_lanes` lanes: phases that
/// need more are left out.
std::vector<PhaseBand> phase_bands(const Profile& profile, size_t max_lanes);

// How much was held for how long: live bytes added up over the log's time, exactly, in bytes times
// nanoseconds. `gpupeak report --byte-seconds` shows it.
//
//   100 bytes from +1 s to +3 s, 50 more from +2 s to +3 s     250 byte-seconds

/// Bytes times nanoseconds: 64 bits do not hold a day of a card's memory.
__extension__ typedef unsigned __int128 ByteTime;

/// What a sum held, from the log's start to the end of its process.
struct HeldTime {
  struct Taker {
    GroupId group = kNoGroup;
    ByteTime time = 0;
  };
  struct InArena {
    HolderId holder = kNoHolder;
    ByteTime time = 0;
  };
  ScopeId scope{};
  ByteTime time = 0;
  /// By the calls that took it from the driver or the heap.
  std::vector<Taker> takers;
  /// The same with the inside of a device's arenas: what was in them, and what was outside. Both
  /// together add up to `time`, and so do the takers alone.
  std::vector<Taker> outside;
  std::vector<InArena> in_arenas;
};

/// One result for each scope, in their order. Replays the log once more.
std::vector<HeldTime> held_over_time(const Profile& profile, const std::vector<ScopeId>& scopes,
                                     const Progress& progress = {});

}  // namespace gpupeak::collector
