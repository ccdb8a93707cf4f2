#include "collector/timeline/moment.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include "collector/text/error.h"
#include "collector/text/name_match.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kEndSuffix = ".end";
constexpr size_t kMaxCurvePoints = 400;

/// Finds the event of each moment.
class MomentFinder : public ReplayObserver {
 public:
  struct Found {
    std::optional<uint64_t> event;
    int64_t event_ns = 0;
    bool earlier = false;  ///< the moment was before the event; `event_ns` is the moment's
    uint64_t bytes = 0;
    uint32_t open = 0;  ///< open phases of the wanted name
    std::vector<Held::Point> curve;
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
      : profile_(profile), scope_(scope), moments_(moments), found_(moments.size()) {
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
    const uint64_t bytes = replay().current(scope_);
    const int64_t now_ns = profile_.to_ns(event.ticks);
    for (size_t i = 0; i < moments_.size(); ++i) {
      const Moment& moment = moments_[i];
      Found& found = found_[i];
      if (moment.event || !moment.end_of.empty()) continue;
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
      open = by > 0 ? open + 1 : open - std::min(open, 1U);
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
  const ScopeId scope_;
  const std::vector<Moment>& moments_;
  std::vector<Found> found_;
  std::unordered_multimap<std::string, size_t> by_name_, by_end_;
  uint64_t last_ticks_ = 0;
  std::unordered_map<uint64_t, std::string> open_;  // by number: names of phases
  uint64_t number_ = 0;
};

/// The moments without their names, in the order of `moments`; none for a moment that never was, as
/// in held_then(). Replays the log once.
std::vector<std::optional<NamedMoment>> events_of(const Profile& profile, ScopeId scope,
                                                  const std::vector<Moment>& moments,
                                                  const Progress& progress) {
  MomentFinder finder(profile, scope, moments);
  profile.replay_again(finder, progress);
  std::vector<std::optional<NamedMoment>> events;
  for (const MomentFinder::Found& found : finder.found()) {
    events.emplace_back();
    if (!found.event) continue;
    if (found.earlier) {
      const Moment at_time{.time_ns = found.event_ns};
      events.back() = events_of(profile, scope, {at_time}, progress).front();
    } else {
      events.back() = NamedMoment{*found.event + 1, found.event_ns, ""};
    }
  }
  return events;
}

std::vector<std::string> known_names(const Profile& profile) {
  const Replay& replay = profile.replay();
  std::vector<std::string> names;
  for (const Mark& mark : replay.marks())
    names.push_back(profile.definitions().shown(replay.name(mark.name)));
  for (const Phase& phase : replay.phases().phases()) {
    if (phase.count == 0) continue;
    const PhaseLabel label{phase.name, phase.source, phase.instance};
    names.push_back(profile.definitions().shown(phase_text(replay, label)));
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

NamedMoment moment_at(const Profile& profile, ScopeId scope, int64_t time_ns,
                      const std::string& shown, const Progress& progress) {
  const int64_t end_ns = profile.to_ns(profile.replay().last_ticks());
  if (time_ns < 0 || time_ns > end_ns) {
    throw UsageError("{} is {}, which is at {} (+{}ns)", shown,
                     time_ns < 0 ? "before the log's start; its end" : "behind the log's end",
                     instant(end_ns), end_ns);
  }
  const auto event = events_of(profile, scope, {Moment{.time_ns = time_ns}}, progress).front();
  return {event ? event->events : 0, time_ns, shown};
}

/// Who holds a sum in a replay that has come to the moment. Groups and holders of arenas have the
/// same numbers in all replays of a log.
Held take(const Profile& profile, const Replay& now, ScopeId scope) {
  const ScopeInfo& info = profile.scope_info(scope);
  Held held;
  held.scope = scope;
  held.bytes = now.current(scope);
  const size_t known = profile.replay().sites().group_count();
  if (now.sites().group_count() > known)
    throw LogError("the log has grown while it was read: ask again", profile.log().used_bytes());
  held.takers = profile.live_in(now, scope);
  if (sum_of(held.takers, &Contribution::bytes) != held.bytes)
    throw std::logic_error("moment: holders do not add up to the sum");
  held.parts.outside = held.takers;
  const ArenaTable& table = now.arenas();
  const ScopeId* driver =
      info.kind == 0 && info.device >= 0 ? table.device_scope(info.device) : nullptr;
  if (driver == nullptr || table.peaks().scope(*driver).current != held.bytes) return held;
  const ArenaTable& whole = profile.replay().arenas();
  held.parts = split_by_arenas(
      whole, std::min(whole.holders().size(), table.holders().size()),
      [&](HolderId id) -> PeakFinder::AtPeak {
        if (!table.is_of_device(id, info.device)) return {};
        const PeakFinder::Group& group = table.peaks().group(as_group(id));
        return {group.live_bytes, static_cast<uint32_t>(group.live_count)};
      },
      held.takers);
  const uint64_t inside = sum_of(held.parts.outside, &Contribution::bytes) +
                          sum_of(held.parts.in_arenas, &ArenaPart::bytes);
  // In damaged logs blocks may lie outside of their arena's memory. Then only takers are known.
  if (inside != held.bytes) held.parts = {held.takers, {}};
  return held;
}

/// Notes who holds the sums after given numbers of events.
class Taker : public ReplayObserver {
 public:
  Taker(const Profile& profile, const std::vector<ScopeId>& scopes,
        std::map<uint64_t, std::vector<Held>>& wanted)
      : profile_(profile), scopes_(scopes), next_(wanted.begin()), end_(wanted.end()) {}

  void after(const Event& event) override {
    ++events_;
    if (next_ == end_ || next_->first != events_) return;
    for (const ScopeId scope : scopes_) {
      next_->second.push_back(take(profile_, replay(), scope));
      next_->second.back().time_ns = profile_.to_ns(event.ticks);
    }
    ++next_;
  }

 private:
  const Profile& profile_;
  const std::vector<ScopeId>& scopes_;
  std::map<uint64_t, std::vector<Held>>::iterator next_;
  const std::map<uint64_t, std::vector<Held>>::iterator end_;
  uint64_t events_ = 0;
};

}  // namespace

Held peak_of(const Profile& profile, ScopeId scope) {
  const PeakFinder::Scope& sum = profile.sum(scope);
  return {scope, sum.peak, profile.to_ns(sum.peak_ticks), "", profile.phase_at_peak(scope), {}, {}};
}

std::vector<ScopeId> sides(const Profile& profile) {
  std::vector<ScopeId> ids = profile.scopes();
  std::erase_if(ids, [&](ScopeId id) {
    const ScopeInfo& info = profile.scope_info(id);
    return info.name != "host" && (info.device < 0 || info.kind != 0);
  });
  return ids;
}

Held held_at_peak(const Profile& profile, ScopeId scope) {
  Held held = peak_of(profile, scope);
  held.takers = profile.at_peak(scope);
  held.parts = parts_at_peak(profile.replay(), scope);
  return held;
}

NamedMoment find_moment(const Profile& profile, ScopeId scope, const std::string& at,
                        const Progress& progress) {
  if (at == "end")
    return {NamedMoment::kEnd, profile.to_ns(profile.replay().last_ticks()), "the end"};
  const std::string shown = profile.definitions().shown(at);
  if (const std::optional<int64_t> time_ns = parse_instant(at))
    return moment_at(profile, scope, *time_ns, shown, progress);
  std::vector<Moment> meanings(3);
  meanings[0].mark = at;
  meanings[1].phase = at;
  if (at.ends_with(kEndSuffix)) meanings[2].end_of = at.substr(0, at.size() - kEndSuffix.size());
  std::vector<std::string> names{"mark " + shown, "the highest within " + shown, ""};
  if (meanings[2].end_of.empty()) {
    meanings.pop_back();
  } else {
    names[2] = "the end of " + profile.definitions().shown(meanings[2].end_of);
  }
  if (at.empty()) meanings.clear();
  const auto events = events_of(profile, scope, meanings, progress);
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i]) return {events[i]->events, events[i]->time_ns, names[i]};
  }
  throw UsageError(
      "the log has no mark and no phase \"{}\"{}; other moments are PHASE.end, end and times such "
      "as +1.25s",
      shown, did_you_mean(shown, known_names(profile)));
}

NamedMoment peak_moment(const Profile& profile, ScopeId scope, const Progress& progress) {
  const auto event = events_of(profile, scope, {Moment{}}, progress).front();
  return {event ? event->events : 0, profile.to_ns(profile.sum(scope).peak_ticks),
          "the peak of " + profile.scope_info(scope).name};
}

std::vector<std::vector<Held>> held_at(const Profile& profile, const std::vector<ScopeId>& scopes,
                                       const std::vector<NamedMoment>& moments,
                                       const Progress& progress) {
  std::map<uint64_t, std::vector<Held>> wanted;
  for (const NamedMoment& moment : moments) {
    if (moment.events != NamedMoment::kEnd && moment.events > 0) wanted[moment.events];
  }
  if (!wanted.empty()) {
    Taker taker(profile, scopes, wanted);
    profile.replay_again(taker, progress);
  }
  std::vector<std::vector<Held>> all;
  for (const NamedMoment& moment : moments) {
    std::vector<Held>& held = all.emplace_back();
    if (moment.events == NamedMoment::kEnd) {
      for (const ScopeId scope : scopes) held.push_back(take(profile, profile.replay(), scope));
    } else if (moment.events > 0) {
      held = wanted[moment.events];
    }
    held.resize(scopes.size());  // nothing was live before the first event
    for (size_t i = 0; i < scopes.size(); ++i) {
      held[i].scope = scopes[i];
      held[i].time_ns = moment.time_ns;
      held[i].moment = moment.name;
      held[i].events = moment.events;
    }
  }
  return all;
}

Held held_at(const Profile& profile, ScopeId scope, const std::string& at,
             const Progress& progress) {
  if (at.empty() || at == "peak") return held_at_peak(profile, scope);
  const NamedMoment moment = find_moment(profile, scope, at, progress);
  return held_at(profile, std::vector{scope}, std::vector{moment}, progress).front().front();
}

std::vector<std::optional<Held>> held_then(const Profile& profile, ScopeId scope,
                                           const std::vector<Moment>& moments,
                                           const Progress& progress) {
  MomentFinder finder(profile, scope, moments);
  const bool known =
      std::ranges::all_of(moments, [](const Moment& moment) { return moment.event.has_value(); });
  if (!known) profile.replay_again(finder, progress);
  std::map<uint64_t, std::vector<Held>> wanted;
  for (const MomentFinder::Found& found : finder.found()) {
    if (found.event) wanted[*found.event + 1];
  }
  const std::vector<ScopeId> scopes{scope};
  Taker taker(profile, scopes, wanted);
  profile.replay_again(taker, progress);
  std::vector<std::optional<Held>> result(moments.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const MomentFinder::Found& found = finder.found()[i];
    if (!found.event) continue;
    const std::vector<Held>& then = wanted.at(*found.event + 1);
    result[i] = then.empty() ? Held() : then.front();
    result[i]->curve = found.curve;
  }
  return result;
}

}  // namespace gpupeak::collector
