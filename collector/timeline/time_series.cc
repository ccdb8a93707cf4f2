#include "collector/timeline/time_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_map>

#include "collector/analyze/analyze.h"
#include "collector/text/error.h"
#include "collector/text/scope_key.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxFailureBorders = 32;

/// Joins `later`, which follows `bucket` in time, into it. Of equal maxima the first one counts.
void merge(SeriesBucket& bucket, const SeriesBucket& later) {
  if (later.min < bucket.min) bucket.min_event = later.min_event;
  bucket.min = std::min(bucket.min, later.min);
  if (later.last_event != kNoEvent) bucket.last_event = later.last_event;
  const bool higher = later.max > bucket.max;
  const bool first = later.max == bucket.max && bucket.max_event == kNoEvent;
  if (higher || first) bucket.max_event = later.max_event;
  bucket.max = std::max(bucket.max, later.max);
}

/// Adds the buckets before this one: nothing happened in them.
void extend(Series& series, size_t end) {
  const size_t have = series.first_bucket + series.buckets.size();
  if (have < end) {
    series.buckets.resize(series.buckets.size() + end - have,
                          {series.current, series.current, kNoEvent, kNoEvent, kNoEvent});
  }
}

bool is_border(uint8_t tag) {
  switch (tag) {
    case GPUPEAK_REC_PHASE_PUSH:
    case GPUPEAK_REC_PHASE_POP:
    case GPUPEAK_REC_RANGE_BEGIN:
    case GPUPEAK_REC_RANGE_END:
    case GPUPEAK_REC_DEVICE_FAILED:
    case GPUPEAK_REC_HOST_FAILED:
    case GPUPEAK_REC_ARENA_FAILED:
      return true;
    default:
      return false;
  }
}

bool is_of_arenas(uint8_t tag) {
  return tag == GPUPEAK_REC_ARENA || tag == GPUPEAK_REC_ARENA_ALLOC ||
         tag == GPUPEAK_REC_ARENA_FREE;
}

}  // namespace

void TimeSeries::start(const LogReader& log) {
  start_ticks_ = log.header().start_ticks;
  // Behind the last pair of the clock there is about as much time as between two pairs.
  const uint64_t span = log.clock().span_ticks();
  width_ticks_ = (span + span / 8) / kBuckets + 1;
  bucket_end_ticks_ = start_ticks_ + width_ticks_;
}

void TimeSeries::merge_pairs() {
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

size_t TimeSeries::bucket_at(uint64_t ticks) {
  const uint64_t since = ticks > start_ticks_ ? ticks - start_ticks_ : 0;
  while (since / width_ticks_ >= kBuckets) merge_pairs();
  const auto bucket = static_cast<size_t>(since / width_ticks_);
  bucket_end_ticks_ = start_ticks_ + (bucket + 1) * width_ticks_;
  return bucket;
}

void TimeSeries::set(Series& series, uint64_t bytes) {
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

void TimeSeries::set_gauge(const std::string& name, uint64_t bytes) {
  auto series =
      std::ranges::find_if(series_, [&](const Series& known) { return known.name == name; });
  if (series == series_.end()) {
    series_.push_back({name,
                       Series::Kind::kGauge,
                       {{bytes, bytes, event_count_, kNoEvent, event_count_}},
                       bucket_,
                       bytes});
    return;
  }
  set(*series, bytes);
}

void TimeSeries::find_new_sums() {
  const std::vector<ScopeInfo>& scopes = replay().sites().scopes();
  for (size_t id = sums_.size(); id < scopes.size(); ++id) {
    sums_.push_back(series_.size());
    series_.push_back({scopes[id].name, Series::Kind::kSum, {}, 0, 0});
    const bool of_heap =
        scopes[id].name == "total" || scopes[id].name == "host" || scopes[id].name == "host/heap";
    if (of_heap) of_heap_.push_back(static_cast<ScopeId>(id));
  }
}

void TimeSeries::read_gauges(uint8_t tag) {
  if (tag == GPUPEAK_REC_SAMPLE) set_gauge("host.rss", replay().rss().current);
  if (tag != GPUPEAK_REC_POOL) return;
  for (const auto& [device, gauge] : replay().device().pool_reserved()) {
    if (device < 0) continue;
    set_gauge(ScopeKey::device(device, "pool reserved").text(), gauge.current);
  }
}

void TimeSeries::set_arenas() {
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

void TimeSeries::note_border(const Event& event) {
  const bool failure = event.tag == GPUPEAK_REC_DEVICE_FAILED ||
                       event.tag == GPUPEAK_REC_ARENA_FAILED ||
                       event.tag == GPUPEAK_REC_HOST_FAILED;
  uint64_t& stride = failure ? failure_stride_ : border_stride_;
  uint64_t& count = failure ? failure_count_ : border_count_;
  if (count++ % stride != 0) return;
  borders_.push_back({event_count_, failure});
  const auto kept = static_cast<size_t>(std::ranges::count_if(
      borders_, [&](const Border& border) { return border.failure == failure; }));
  if (kept < (failure ? kMaxFailureBorders : kBorders)) return;
  stride *= 2;
  size_t index = 0;
  std::erase_if(borders_, [&](const Border& border) {
    return border.failure == failure && index++ % 2 == 1;
  });
}

void TimeSeries::after(const Event& event) {
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
  if (is_of_arenas(event.tag) || replay().arenas().segments_version() != segments_version_) {
    set_arenas();
  }
  ++event_count_;
}

void TimeSeries::finish(const Replay& replay) {
  if (width_ticks_ == 0) start(replay.log());
  const uint64_t clock_end = start_ticks_ + replay.log().clock().span_ticks();
  bucket_ = bucket_at(std::max(clock_end, replay.last_ticks()));
  bucket_count_ = bucket_ + 1;
  for_each_series([this](Series& series) { extend(series, bucket_count_); });
}

const Series* TimeSeries::find(const std::string& name) const {
  for (const Series& series : series_) {
    if (series.name == name) return &series;
  }
  return nullptr;
}

const Series* TimeSeries::arena_in_use(size_t arena) const {
  return arena < arenas_.size() ? &arenas_[arena].in_use : nullptr;
}

const Series* TimeSeries::pool_reserved(size_t arena) const {
  return arena < arenas_.size() ? &arenas_[arena].reserved : nullptr;
}

int64_t TimeSeries::begin_ns(size_t bucket, const ClockMap& clock) const {
  return clock.to_ns(start_ticks_ + bucket * width_ticks_);
}

uint64_t TimeSeries::peak_event(const Series& series) {
  uint64_t best = 0, event = kNoEvent;
  for (const SeriesBucket& bucket : series.buckets) {
    if (bucket.max_event == kNoEvent || bucket.max <= best) continue;
    best = bucket.max;
    event = bucket.max_event;
  }
  return event;
}

std::vector<uint64_t> TimeSeries::highest_events(const Series& series, size_t parts) {
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

std::vector<uint64_t> TimeSeries::telling_events(const Series& series, size_t parts) {
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

namespace {

constexpr size_t kMaxBands = 1000;

bool overlaps(const PhaseBand& a, const PhaseBand& b) {
  return a.begin_ns < b.end_ns && b.begin_ns < a.end_ns;
}

/// The instances of each phase whose instances are all known.
std::vector<std::vector<std::pair<int64_t, int64_t>>> instances_of(const Profile& profile) {
  const PhaseTree& tree = profile.replay().phases();
  std::vector<std::vector<std::pair<int64_t, int64_t>>> of(tree.phases().size());
  for (const PhaseSpan& span : tree.spans()) {
    of[span.phase].emplace_back(profile.to_ns(span.begin_ticks), profile.to_ns(span.end_ticks));
  }
  for (PhaseId id = 0; id < of.size(); ++id) {
    if (of[id].size() != tree.phases()[id].count || of[id].size() == 1) of[id].clear();
    std::sort(of[id].begin(), of[id].end());
  }
  return of;
}

}  // namespace

std::string PhaseBand::label() const {
  return count > 1 ? fmt::format("{} ×{}", name, grouped(count)) : name;
}

std::vector<PhaseBand> phase_bands(const Profile& profile, size_t max_lanes) {
  const std::vector<Phase>& phases = profile.replay().phases().phases();
  const int64_t end_ns = profile.to_ns(profile.replay().last_ticks());
  std::vector<std::vector<std::pair<int64_t, int64_t>>> instances = instances_of(profile);
  std::vector<PhaseBand> bands;
  std::vector<size_t> lanes(phases.size(), 0);  // lane of the phase + 1; 0: it has none
  for (PhaseId id = 1; id < phases.size(); ++id) {
    const Phase& phase = phases[id];
    PhaseBand band;
    band.name = profile.sites().phase_name(id).value_or("");
    band.count = phase.count;
    band.begin_ns = profile.to_ns(phase.begin_ticks);
    band.end_ns = phase.open > 0 ? end_ns : profile.to_ns(phase.end_ticks);
    band.instances = std::move(instances[id]);
    band.lane = lanes[phase.parent];
    const auto taken = [&](const PhaseBand& other) {
      return other.lane == band.lane && overlaps(other, band);
    };
    while (band.lane < max_lanes && std::ranges::any_of(bands, taken)) ++band.lane;
    lanes[id] = band.lane + 1;
    if (band.lane < max_lanes && bands.size() < kMaxBands) bands.push_back(std::move(band));
  }
  std::ranges::stable_sort(bands, {}, &PhaseBand::begin_ns);
  return bands;
}

namespace {

/// By the number of a group or holder: what it has now, and its bytes times nanoseconds until then.
class Levels {
 public:
  void add(std::span<const PeakFinder::Change> step) {
    step_.insert(step_.end(), step.begin(), step.end());
  }
  /// Applies the changes of the current event.
  void apply(int64_t now_ns) {
    for (const PeakFinder::Change& part : step_) {
      if (part.group >= levels_.size()) levels_.resize(part.group + 1);
      Level& level = levels_[part.group];
      level = {until(part.group, now_ns), level.bytes + static_cast<uint64_t>(part.bytes), now_ns};
    }
    step_.clear();
  }
  size_t size() const { return levels_.size(); }
  ByteTime until(size_t number, int64_t now_ns) const {
    const Level& level = levels_[number];
    return level.time +
           static_cast<ByteTime>(level.bytes) * static_cast<uint64_t>(now_ns - level.since_ns);
  }

 private:
  struct Level {
    ByteTime time = 0;
    uint64_t bytes = 0;
    int64_t since_ns = 0;
  };
  std::vector<PeakFinder::Change> step_;
  std::vector<Level> levels_;
};

/// Groups and holders of arenas have equal numbers in all replays of a log.
class TimeWatch : public ReplayObserver {
 public:
  explicit TimeWatch(const Profile& profile) : profile_(profile) {}

  void on_step(std::span<const PeakFinder::Change> step) override { groups_.add(step); }
  void on_arena_step(std::span<const PeakFinder::Change> step) override { holders_.add(step); }
  void after(const Event& event) override {
    // In a damaged log times may run backwards.
    now_ns_ = std::max(now_ns_, profile_.to_ns(event.ticks));
    groups_.apply(now_ns_);
    holders_.apply(now_ns_);
  }

  HeldTime of(ScopeId scope) const {
    const int64_t end_ns = std::max(now_ns_, duration_ns(profile_.log(), profile_.replay()));
    HeldTime held;
    held.scope = scope;
    for (size_t id = 0; id < groups_.size(); ++id) {
      const ByteTime time = groups_.until(id, end_ns);
      if (time == 0 || !profile_.counts_into(static_cast<GroupId>(id), scope)) continue;
      held.takers.push_back({static_cast<GroupId>(id), time});
      held.time += time;
    }
    split(end_ns, held);
    return held;
  }
  bool has_grown() const {
    return groups_.size() > profile_.replay().sites().group_count() ||
           holders_.size() > profile_.replay().arenas().holders().size();
  }

 private:
  /// Does what split_by_arenas() does for an instant.
  void split(int64_t end_ns, HeldTime& held) const {
    held.outside = held.takers;
    const ScopeInfo& info = profile_.scope_info(held.scope);
    if (info.kind != 0 || info.device < 0) return;
    const ArenaTable& table = profile_.replay().arenas();
    std::unordered_map<GroupId, ByteTime> outside;
    ByteTime whole = 0;
    for (size_t id = 0; id < holders_.size(); ++id) {
      const auto holder = static_cast<HolderId>(id);
      if (!table.is_of_device(holder, info.device)) continue;
      const ByteTime time = holders_.until(id, end_ns);
      if (table.holder(holder).what == ArenaTable::What::kOutside) {
        outside[table.holder(holder).outside] = time;
      } else if (time > 0) {
        held.in_arenas.push_back({holder, time});
        whole += time;
      }
    }
    for (HeldTime::Taker& taker : held.outside) {
      const auto known = outside.find(taker.group);
      if (known != outside.end()) taker.time = known->second;
      whole += taker.time;
    }
    std::erase_if(held.outside, [](const HeldTime::Taker& taker) { return taker.time == 0; });
    if (whole == held.time) return;
    // In damaged logs blocks may lie outside of their arena's memory. Then only takers are known.
    held.outside = held.takers;
    held.in_arenas.clear();
  }

  const Profile& profile_;
  Levels groups_, holders_;
  int64_t now_ns_ = 0;
};

}  // namespace

std::vector<HeldTime> held_over_time(const Profile& profile, const std::vector<ScopeId>& scopes,
                                     const Progress& progress) {
  TimeWatch watch(profile);
  profile.replay_again(watch, progress);
  if (watch.has_grown())
    throw LogError("the log has grown while it was read: ask again", profile.log().used_bytes());
  std::vector<HeldTime> all;
  all.reserve(scopes.size());
  for (const ScopeId scope : scopes) all.push_back(watch.of(scope));
  return all;
}

}  // namespace gpupeak::collector
