#include "collector/timeline/held_then.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <unordered_map>

namespace gpupeak::collector {
namespace {

/// A sum by its name. Each replay numbers its scopes anew, and a scope exists only from its first
/// event on.
class Sum {
 public:
  explicit Sum(std::string scope) : name_(std::move(scope)) {}
  uint64_t now(const Replay& replay) {
    if (!id_) {
      const ScopeId* id = replay.sites().find_scope(name_);
      if (id == nullptr) return 0;
      id_ = *id;
    }
    return replay.peaks().scope(*id_).current;
  }

 private:
  const std::string name_;
  std::optional<ScopeId> id_;
};

/// Finds the event of each moment.
class MomentFinder : public ReplayObserver {
 public:
  struct Found {
    std::optional<uint64_t> event;
    int64_t event_ns = 0;
    bool earlier = false;  ///< the moment was before the event; `event_ns` is the moment's
    uint64_t bytes = 0;
    uint32_t open = 0;  ///< open phases of the wanted name
    std::vector<HeldThen::Point> curve;
    /// Events for each point; events in the last point so far.
    uint64_t stride = 1, in_stretch = 0;

    void set(uint64_t number, int64_t at_ns) {
      event = number;
      event_ns = at_ns;
    }
    void add_point(int64_t time_ns, uint64_t now_bytes) {
      if (!curve.empty() && in_stretch < stride) {
        ++in_stretch;
        curve.back().bytes = std::max(curve.back().bytes, now_bytes);
        return;
      }
      if (curve.size() == kMaxCurvePoints) {  // join pairs of points
        for (size_t i = 0; 2 * i < curve.size(); ++i) {
          curve[i] = {curve[2 * i].time_ns, std::max(curve[2 * i].bytes, curve[2 * i + 1].bytes)};
        }
        curve.resize(kMaxCurvePoints / 2);
        stride *= 2;
      }
      curve.push_back({time_ns, now_bytes});
      in_stretch = 1;
    }
  };

  MomentFinder(const Profile& profile, ScopeId scope, const std::vector<Moment>& moments)
      : profile_(profile),
        sum_(profile.scope_info(scope).name),
        moments_(moments),
        found_(moments.size()) {
    for (size_t i = 0; i < moments.size(); ++i) {
      if (!moments[i].phase.empty()) by_name_.emplace(moments[i].phase, i);
      if (!moments[i].end_of.empty()) by_end_.emplace(moments[i].end_of, i);
      found_[i].event = moments[i].event;
    }
  }
  const std::vector<Found>& found() const { return found_; }

  void on_phase_begin(PhaseTrack /*track*/, uint64_t number, const PhaseLabel& label,
                      uint64_t /*ticks*/) override {
    change(open_.emplace(number, phase_text(replay(), label)).first->second, +1);
  }
  void on_phase_end(PhaseTrack /*track*/, uint64_t number, uint64_t ticks) override {
    const auto ended = open_.find(number);
    if (ended == open_.end()) return;
    change(ended->second, -1);
    note_end(ended->second, ticks);
    open_.erase(ended);
  }
  void on_range_begin(uint64_t /*id*/, const PhaseLabel& label, uint64_t /*ticks*/) override {
    change(phase_text(replay(), label), +1);
  }
  void on_range_end(uint64_t /*id*/, const PhaseLabel& label, uint64_t ticks) override {
    const std::string name = phase_text(replay(), label);
    change(name, -1);
    note_end(name, ticks);
  }

  void after(const Event& event) override {
    const uint64_t bytes = sum_.now(replay());
    const int64_t now_ns = profile_.to_ns(event.ticks);
    for (size_t i = 0; i < moments_.size(); ++i) {
      const Moment& moment = moments_[i];
      Found& found = found_[i];
      if (moment.event) continue;
      if (!moment.end_of.empty()) continue;
      if (!moment.mark.empty()) {
        if (event.tag == GPUPEAK_REC_MARK && last_mark() == moment.mark) found.set(number_, now_ns);
        continue;
      }
      const bool counts =
          moment.phase.empty() ? !moment.time_ns || now_ns <= *moment.time_ns : found.open > 0;
      if (counts && !moment.phase.empty()) found.add_point(now_ns, bytes);
      const bool later = moment.phase.empty() && moment.time_ns;
      if (!counts || (found.event && !later && bytes <= found.bytes)) continue;
      found.set(number_, now_ns);
      found.bytes = bytes;
    }
    last_ticks_ = event.ticks;
    ++number_;
  }

 private:
  void change(const std::string& name, int by) {
    const auto [begin, end] = by_name_.equal_range(name);
    for (auto entry = begin; entry != end; ++entry) {
      uint32_t& open = found_[entry->second].open;
      if (by > 0) {
        ++open;
      } else if (open > 0) {
        --open;
      }
    }
  }

  /// An end is told before the current event changes anything. A rule's phase may have ended
  /// earlier: with the last event of its thread, after which other threads went on.
  void note_end(const std::string& name, uint64_t ticks) {
    const auto [begin, end] = by_end_.equal_range(name);
    if (begin == end) return;
    for (auto entry = begin; entry != end; ++entry) {
      Found& found = found_[entry->second];
      if (number_ > 0) found.set(number_ - 1, profile_.to_ns(ticks));
      found.earlier = ticks < last_ticks_;
    }
  }
  std::string_view last_mark() const {
    const std::vector<Mark>& marks = replay().marks();
    return marks.empty() ? std::string_view() : replay().name(marks.back().name);
  }

  const Profile& profile_;
  Sum sum_;
  const std::vector<Moment>& moments_;
  std::vector<Found> found_;
  std::unordered_multimap<std::string, size_t> by_name_, by_end_;
  uint64_t last_ticks_ = 0;
  std::unordered_map<uint64_t, std::string> open_;  // by number: names of phases
  uint64_t number_ = 0;
};

/// Notes what every group has after the chosen events.
class HolderTaker : public ReplayObserver {
 public:
  HolderTaker(const Profile& profile, ScopeId scope, std::map<uint64_t, HeldThen>& wanted)
      : profile_(profile),
        scope_(scope),
        sum_(profile.scope_info(scope).name),
        next_(wanted.begin()),
        end_(wanted.end()) {}

  void after(const Event& event) override {
    if (next_ == end_ || next_->first != number_++) return;
    HeldThen& then = next_++->second;
    const size_t known = profile_.replay().sites().group_count();
    if (replay().sites().group_count() > known) return;  // the log is being written and has grown
    then.time_ns = profile_.to_ns(event.ticks);
    then.bytes = sum_.now(replay());
    uint64_t sum = 0;
    for (GroupId id{0}; id < replay().sites().group_count(); ++id) {
      const PeakFinder::Group& group = replay().peaks().group(id);
      if (group.live_bytes == 0 || !profile_.counts_into(id, scope_)) continue;
      then.held.push_back({id, group.live_bytes, group.live_count});
      sum += group.live_bytes;
    }
    if (sum != then.bytes) throw std::logic_error("held: holders do not add up to the sum");
  }

 private:
  const Profile& profile_;
  const ScopeId scope_;
  Sum sum_;
  std::map<uint64_t, HeldThen>::iterator next_;
  const std::map<uint64_t, HeldThen>::iterator end_;
  uint64_t number_ = 0;
};

}  // namespace

std::vector<std::optional<MomentEvent>> events_of(const Profile& profile, ScopeId scope,
                                                  const std::vector<Moment>& moments,
                                                  const Progress& progress) {
  MomentFinder finder(profile, scope, moments);
  profile.replay_again(finder, progress);
  std::vector<std::optional<MomentEvent>> events;
  for (const MomentFinder::Found& found : finder.found()) {
    events.emplace_back();
    if (!found.event) continue;
    if (found.earlier) {
      Moment at_time;
      at_time.time_ns = found.event_ns;
      events.back() = events_of(profile, scope, {at_time}, progress).front();
    } else {
      events.back() = MomentEvent{*found.event, found.event_ns};
    }
  }
  return events;
}

std::vector<std::optional<HeldThen>> held_then(const Profile& profile, ScopeId scope,
                                               const std::vector<Moment>& moments,
                                               const Progress& progress) {
  MomentFinder finder(profile, scope, moments);
  const bool known = std::all_of(moments.begin(), moments.end(),
                                 [](const Moment& moment) { return moment.event.has_value(); });
  if (!known) profile.replay_again(finder, progress);
  std::map<uint64_t, HeldThen> stock;
  for (const MomentFinder::Found& found : finder.found()) {
    if (found.event) stock.try_emplace(*found.event);
  }
  HolderTaker taker(profile, scope, stock);
  profile.replay_again(taker, progress);
  std::vector<std::optional<HeldThen>> result;
  for (const MomentFinder::Found& found : finder.found()) {
    result.push_back(found.event ? std::optional(stock.at(*found.event)) : std::nullopt);
    if (found.event) result.back()->curve = found.curve;
  }
  return result;
}

}  // namespace gpupeak::collector
