#include "collector/timeline/byte_time.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "collector/analyze/analyze.h"
#include "collector/text/error.h"

namespace gpupeak::collector {
namespace {

/// What one group has now, and its bytes times nanoseconds until now.
class Level {
 public:
  void change(int64_t by, int64_t now_ns) {
    time_ = until(now_ns);
    since_ns_ = now_ns;
    bytes_ += static_cast<uint64_t>(by);
  }
  ByteTime until(int64_t now_ns) const {
    return time_ + static_cast<ByteTime>(bytes_) * static_cast<uint64_t>(now_ns - since_ns_);
  }

 private:
  ByteTime time_ = 0;
  uint64_t bytes_ = 0;
  int64_t since_ns_ = 0;
};

/// Levels by the number of a group or holder, and the changes of the current event.
class Levels {
 public:
  void add(std::span<const PeakFinder::Change> step) {
    step_.insert(step_.end(), step.begin(), step.end());
  }
  void apply(int64_t now_ns) {
    for (const PeakFinder::Change& part : step_) {
      if (part.group >= levels_.size()) levels_.resize(part.group + 1);
      levels_[part.group].change(part.bytes, now_ns);
    }
    step_.clear();
  }
  size_t size() const { return levels_.size(); }
  ByteTime until(size_t number, int64_t now_ns) const { return levels_[number].until(now_ns); }

 private:
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
