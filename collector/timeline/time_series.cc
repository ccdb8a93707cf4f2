#include "collector/timeline/time_series.h"

#include <fmt/format.h>

#include <span>
#include <unordered_map>

#include "collector/analyze/analyze.h"
#include "collector/text/error.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxBands = 1000;

bool overlaps(const PhaseBand& a, const PhaseBand& b) {
  return a.begin_ns < b.end_ns && b.begin_ns < a.end_ns;
}

/// The instances of each phase whose instances are all known.
std::vector<std::vector<std::pair<int64_t, int64_t>>> instances_of(const Profile& profile) {
  const PhaseTree& tree = profile.replay().phases();
  std::vector<std::vector<std::pair<int64_t, int64_t>>> of(tree.phases().size());
  for (const PhaseSpan& span : tree.spans())
    of[span.phase].emplace_back(profile.to_ns(span.begin_ticks), profile.to_ns(span.end_ticks));
  for (PhaseId id = 0; id < of.size(); ++id) {
    if (of[id].size() != tree.phases()[id].count || of[id].size() == 1) of[id].clear();
    std::sort(of[id].begin(), of[id].end());
  }
  return of;
}

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
      taker.time = value_or(outside, taker.group, taker.time);
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

std::vector<HeldTime> held_over_time(const Profile& profile, const std::vector<ScopeId>& scopes,
                                     const Progress& progress) {
  TimeWatch watch(profile);
  profile.replay_again(watch, progress);
  if (watch.has_grown())
    throw LogError("the log has grown while it was read: ask again", profile.log().used_bytes());
  return list_of(scopes, [&](ScopeId scope) { return watch.of(scope); });
}

}  // namespace gpupeak::collector
