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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/replay/replay.h"
#include "collector/text/scope_key.h"

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

  void after(const Event& event) override {
    if (width_ticks_ == 0) [[unlikely]]
      start(replay().log());
    if (event.ticks >= bucket_end_ticks_) [[unlikely]]
      bucket_ = bucket_at(event.ticks);
    const PeakFinder& peaks = replay().peaks();
    if (sums_.size() != peaks.scope_count()) [[unlikely]]
      find_new_sums();
    if (is_heap_event(event.tag)) [[likely]] {
      for (const ScopeId id : of_heap_) set(series_[sums_[id]], peaks.scope(id).current);
    } else {
      for (ScopeId id{}; id < sums_.size(); ++id) set(series_[sums_[id]], peaks.scope(id).current);
      read_gauges(event.tag);
      if (is_border(event.tag)) note_border(event);
    }
    // A free of the driver's memory or of the heap may end an arena's memory.
    if (is_of_arenas(event.tag) || replay().arenas().segments_version() != segments_version_)
      set_arenas();
    ++event_count_;
  }
  /// After the replay: gives every series all buckets.
  void finish(const Replay& replay) {
    if (width_ticks_ == 0) start(replay.log());
    const uint64_t clock_end = start_ticks_ + replay.log().clock().span_ticks();
    bucket_ = bucket_at(std::max(clock_end, replay.last_ticks()));
    bucket_count_ = bucket_ + 1;
    for_each_series([this](Series& series) { extend(series, bucket_count_); });
  }

  const std::vector<Series>& series() const { return series_; }
  const Series* find(const std::string& name) const {
    const auto found = std::ranges::find(series_, name, &Series::name);
    return found == series_.end() ? nullptr : &*found;
  }
  /// The series of an arena, by its number in ArenaTable; nullptr: it never had a block.
  const Series* arena_in_use(size_t arena) const {
    return arena < arenas_.size() ? &arenas_[arena].in_use : nullptr;
  }
  const Series* pool_reserved(size_t arena) const {
    return arena < arenas_.size() ? &arenas_[arena].reserved : nullptr;
  }
  size_t bucket_count() const { return bucket_count_; }
  /// When a bucket begins, in nanoseconds since the start.
  int64_t begin_ns(size_t bucket, const ClockMap& clock) const {
    return clock.to_ns(start_ticks_ + bucket * width_ticks_);
  }
  uint64_t event_count() const { return event_count_; }
  /// The first event at which the series had its largest value.
  static uint64_t peak_event(const Series& series) {
    uint64_t best = 0, event = kNoEvent;
    for (const SeriesBucket& bucket : series.buckets) {
      if (bucket.max_event == kNoEvent || bucket.max <= best) continue;
      best = bucket.max;
      event = bucket.max_event;
    }
    return event;
  }
  /// For each of so many equal parts of the series: the event that reached its highest value.
  static std::vector<uint64_t> highest_events(const Series& series, size_t parts) {
    std::vector<uint64_t> events;
    for (size_t part = 0; part < parts; ++part) {
      const size_t end = (part + 1) * series.buckets.size() / parts;
      const SeriesBucket* highest = nullptr;
      for (size_t b = part * series.buckets.size() / parts; b < end; ++b) {
        const SeriesBucket& bucket = series.buckets[b];
        if (bucket.max_event == kNoEvent) continue;
        if (highest == nullptr || bucket.max > highest->max) highest = &bucket;
      }
      if (highest != nullptr) events.push_back(highest->max_event);
    }
    return events;
  }
  /// For each part the events that reached its highest and its lowest value, and its last: with
  /// steps between these a curve is right to a part. In order.
  static std::vector<uint64_t> telling_events(const Series& series, size_t parts) {
    std::vector<uint64_t> events;
    for (size_t part = 0; part < parts; ++part) {
      const size_t end = (part + 1) * series.buckets.size() / parts;
      size_t at = part * series.buckets.size() / parts;
      if (at == end) continue;
      SeriesBucket whole = series.buckets[at];
      while (++at < end) merge(whole, series.buckets[at]);
      for (const uint64_t event : {whole.max_event, whole.min_event, whole.last_event}) {
        if (event != kNoEvent) events.push_back(event);
      }
    }
    std::ranges::sort(events);
    events.erase(std::unique(events.begin(), events.end()), events.end());
    return events;
  }
  /// At most kBorders borders of phases, and as many failures. If there are more, only each second,
  /// fourth … one.
  const std::vector<Border>& borders() const { return borders_; }

 private:
  static constexpr size_t kMaxFailureBorders = 32;

  /// Joins `later`, which follows `bucket` in time, into it. Of equal maxima the first one counts.
  static void merge(SeriesBucket& bucket, const SeriesBucket& later) {
    if (later.min < bucket.min) bucket.min_event = later.min_event;
    bucket.min = std::min(bucket.min, later.min);
    if (later.last_event != kNoEvent) bucket.last_event = later.last_event;
    const bool higher = later.max > bucket.max;
    const bool first = later.max == bucket.max && bucket.max_event == kNoEvent;
    if (higher || first) bucket.max_event = later.max_event;
    bucket.max = std::max(bucket.max, later.max);
  }

  /// Adds the buckets before this one: nothing happened in them.
  static void extend(Series& series, size_t end) {
    const size_t have = series.first_bucket + series.buckets.size();
    if (have < end) {
      series.buckets.resize(series.buckets.size() + end - have,
                            {series.current, series.current, kNoEvent, kNoEvent, kNoEvent});
    }
  }

  static bool is_failure(uint8_t tag) {
    return tag == GPUPEAK_REC_DEVICE_FAILED || tag == GPUPEAK_REC_ARENA_FAILED ||
           tag == GPUPEAK_REC_HOST_FAILED;
  }
  static bool is_border(uint8_t tag) {
    return is_failure(tag) || tag == GPUPEAK_REC_PHASE_PUSH || tag == GPUPEAK_REC_PHASE_POP ||
           tag == GPUPEAK_REC_RANGE_BEGIN || tag == GPUPEAK_REC_RANGE_END;
  }
  static bool is_of_arenas(uint8_t tag) {
    return tag == GPUPEAK_REC_ARENA || tag == GPUPEAK_REC_ARENA_ALLOC ||
           tag == GPUPEAK_REC_ARENA_FREE;
  }

  void start(const LogReader& log) {
    start_ticks_ = log.header().start_ticks;
    // Behind the last pair of the clock there is about as much time as between two pairs.
    const uint64_t span = log.clock().span_ticks();
    width_ticks_ = (span + span / 8) / kBuckets + 1;
    bucket_end_ticks_ = start_ticks_ + width_ticks_;
  }
  size_t bucket_at(uint64_t ticks) {
    const uint64_t since = ticks > start_ticks_ ? ticks - start_ticks_ : 0;
    while (since / width_ticks_ >= kBuckets) merge_pairs();
    const auto bucket = static_cast<size_t>(since / width_ticks_);
    bucket_end_ticks_ = start_ticks_ + (bucket + 1) * width_ticks_;
    return bucket;
  }
  void merge_pairs() {
    for_each_series([](Series& series) {
      // A series may begin with the second bucket of a pair.
      const size_t odd = series.first_bucket % 2;
      std::vector<SeriesBucket> merged;
      merged.reserve(kBuckets);
      for (size_t i = 0; i < series.buckets.size(); ++i) {
        const bool second = (i + odd) % 2 == 1 && i > 0;
        if (second) {
          merge(merged.back(), series.buckets[i]);
        } else {
          merged.push_back(series.buckets[i]);
        }
      }
      series.buckets = std::move(merged);
      series.first_bucket /= 2;
    });
    width_ticks_ *= 2;
  }
  void find_new_sums() {
    const std::vector<ScopeInfo>& scopes = replay().sites().scopes();
    for (size_t id = sums_.size(); id < scopes.size(); ++id) {
      sums_.push_back(series_.size());
      series_.push_back({scopes[id].name, Series::Kind::kSum, {}, 0, 0});
      const bool of_heap =
          scopes[id].name == "total" || scopes[id].name == "host" || scopes[id].name == "host/heap";
      if (of_heap) of_heap_.push_back(static_cast<ScopeId>(id));
    }
  }
  void set(Series& series, uint64_t bytes) {
    const size_t at = bucket_ - series.first_bucket;
    if (at >= series.buckets.size()) {
      extend(series, bucket_ + 1);
    } else if (series.current == bytes) {
      return;
    }
    series.current = bytes;
    SeriesBucket& bucket = series.buckets[at];
    bucket.last_event = event_count_;
    if (bytes < bucket.min) {
      bucket.min = bytes;
      bucket.min_event = event_count_;
    }
    if (bytes > bucket.max || (bytes == bucket.max && bucket.max_event == kNoEvent)) {
      bucket.max = bytes;
      bucket.max_event = event_count_;
    }
  }
  void set_gauge(const std::string& name, uint64_t bytes) {
    auto series = std::ranges::find(series_, name, &Series::name);
    if (series != series_.end()) return set(*series, bytes);
    const SeriesBucket first{bytes, bytes, event_count_, kNoEvent, event_count_};
    series_.push_back({name, Series::Kind::kGauge, {first}, bucket_, bytes});
  }
  void read_gauges(uint8_t tag) {
    if (tag == GPUPEAK_REC_SAMPLE) set_gauge("host.rss", replay().rss().current);
    if (tag != GPUPEAK_REC_POOL) return;
    for (const auto& [device, gauge] : replay().device().pool_reserved()) {
      if (device < 0) continue;
      set_gauge(ScopeKey::device(device, "pool reserved").text(), gauge.current);
    }
  }
  void note_border(const Event& event) {
    const bool failure = is_failure(event.tag);
    uint64_t& stride = failure ? failure_stride_ : border_stride_;
    uint64_t& count = failure ? failure_count_ : border_count_;
    if (count++ % stride != 0) return;
    borders_.push_back({event_count_, failure});
    const auto kept = static_cast<size_t>(std::ranges::count(borders_, failure, &Border::failure));
    if (kept < (failure ? kMaxFailureBorders : kBorders)) return;
    stride *= 2;
    size_t index = 0;
    std::erase_if(borders_, [&](const Border& border) {
      return border.failure == failure && index++ % 2 == 1;
    });
  }
  void set_arenas() {
    const ArenaTable& table = replay().arenas();
    segments_version_ = table.segments_version();
    for (size_t arena = 0; arena < table.arenas().size(); ++arena) {
      const auto [in_use, reserved] = table.level(arena);
      if (arena == arenas_.size()) {
        arenas_.push_back({{"in use", Series::Kind::kSum, {}, bucket_, 0},
                           {"reserved", Series::Kind::kSum, {}, bucket_, 0}});
      }
      set(arenas_[arena].in_use, in_use);
      set(arenas_[arena].reserved, reserved);
    }
  }
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
