#include "collector/timeline/stacked.h"

#include <algorithm>
#include <map>
#include <utility>

#include "collector/analyze/summary_parts.h"
#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

/// A number for each text.
class Numbers {
 public:
  uint32_t of(std::string text) {
    const auto [known, is_new] =
        numbers_.try_emplace(std::move(text), static_cast<uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(known->first);
    return known->second;
  }
  const std::string& text(uint32_t number) const { return texts_[number]; }

 private:
  std::map<std::string, uint32_t> numbers_;
  std::vector<std::string> texts_;
};

std::string phase_title(const Profile& profile, PhaseId phase) {
  return profile.sites().phase_name(phase).value_or("(no phase)");
}

}  // namespace

void Stacker::Way::change(size_t of, int64_t by_bytes) {
  if (of < part_of.size() && part_of[of] != kNone) bytes[part_of[of]] += by_bytes;
}

Stacker::Stacker(Profile& profile, const TimeSeries& times, std::span<const GroupBy> ways)
    : profile_(profile) {
  for (const ScopeId id : profile.scopes()) {
    const ScopeInfo& info = profile.scope_info(id);
    if (info.kind != 0 || (info.device < 0 && info.name != "host")) continue;
    const ScopeId* const driver =
        info.device < 0 ? nullptr : profile.replay().arenas().device_scope(info.device);
    if (info.device >= 0 && driver == nullptr) continue;
    Sum& sum = sums_.emplace_back();
    sum.id = id;
    sum.scope = info.name;
    sum.device = info.device;
    for (const GroupBy by : ways) {
      sum.ways.push_back(info.device < 0 || by == GroupBy::kKind
                             ? way_of_groups(id, by)
                             : way_of_holders(info.device, *driver, by));
      sum.ways.back().by.by = by;
    }
  }
  const size_t arenas = profile.replay().arenas().arenas().size();
  for (Sum& sum : sums_) {
    // Memory of a device's arenas comes into use and falls idle while the device's sum stands.
    std::vector<const Series*> changing = {times.find(sum.scope)};
    for (size_t arena = 0; sum.device >= 0 && arena < std::min(arenas, kMostArenas); ++arena)
      changing.push_back(times.arena_in_use(arena));
    std::erase(changing, nullptr);
    const size_t moments = std::min(kMostOfOne, kMostMoments / sums_.size());
    for (const Series* const series : changing) {
      const std::vector<uint64_t> events = TimeSeries::telling_events(
          *series, std::max<size_t>(1, moments / kEventsOfPart / changing.size()));
      sum.events.insert(sum.events.end(), events.begin(), events.end());
      if (const uint64_t peak = TimeSeries::peak_event(*series); peak != kNoEvent)
        sum.events.push_back(peak);
    }
    std::ranges::sort(sum.events);
    sum.events.erase(std::unique(sum.events.begin(), sum.events.end()), sum.events.end());
  }
}

/// Chooses and names a way's parts. `keys`, `at_peak`: by HolderId or group.
void Stacker::name_parts(Way& way, const Keys& keys, const std::vector<uint64_t>& at_peak,
                         const TitleOf& title_of) {
  std::map<uint32_t, uint64_t> held;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] && at_peak[i] > 0) held[*keys[i]] += at_peak[i];
  }
  std::vector<std::pair<uint64_t, uint32_t>> largest;
  std::map<uint32_t, std::string> titles;
  for (const auto& [key, bytes] : held) {
    titles[key] = title_of(key);
    if (titles[key] != kOthers) largest.emplace_back(bytes, key);
  }
  std::ranges::stable_sort(largest, [](const auto& a, const auto& b) { return a.first > b.first; });
  if (largest.size() > kParts) largest.resize(kParts);
  std::map<uint32_t, uint8_t> parts;
  for (const auto& [bytes, key] : largest) {
    parts.emplace(key, static_cast<uint8_t>(parts.size()));
    way.by.parts.push_back(titles[key]);
  }
  const auto others = static_cast<uint8_t>(parts.size());
  way.by.parts.emplace_back(kOthers);
  way.bytes.resize(way.by.parts.size());
  way.part_of.reserve(keys.size());
  for (const std::optional<uint32_t>& key : keys) {
    const auto part = key ? parts.find(*key) : parts.end();
    way.part_of.push_back(!key ? kNone : part == parts.end() ? others : part->second);
  }
}

Stacker::Way Stacker::way_of_holders(int32_t device, ScopeId driver, GroupBy by) {
  const Replay& replay = profile_.replay();
  const ArenaTable& table = replay.arenas();
  Keys keys(table.holders().size());
  std::vector<uint64_t> at_peak(keys.size());
  Numbers titles;
  for (size_t number = 0; number < keys.size(); ++number) {
    const auto id = static_cast<HolderId>(number);
    if (!table.is_of_device(id, device)) continue;
    at_peak[number] = table.peaks().at_peak(as_group(id), driver).bytes;
    const ArenaTable::Holder& holder = table.holder(id);
    const bool is_outside = holder.what == ArenaTable::What::kOutside;
    const auto title = [&]() -> std::string {
      if (by == GroupBy::kTag) {
        Tagger& tagger = profile_.tagger();
        return tagger.name(is_outside ? tagger.tag(holder.outside) : tagger.tag(holder));
      }
      if (holder.what == ArenaTable::What::kIdle) return idle_title(replay, holder);
      if (by == GroupBy::kPhase) {
        return phase_title(profile_, is_outside ? replay.sites().context_of(holder.outside).phase
                                                : holder.cause.phase);
      }
      return is_outside ? profile_.sites().holder({holder.outside, 0, 0}, false).title
                        : arena_holder_title(replay, profile_.sites(), holder);
    };
    keys[number] = titles.of(title());
  }
  Way way;
  way.of_holders = true;
  name_parts(way, keys, at_peak, [&](uint32_t key) { return titles.text(key); });
  return way;
}

Stacker::Way Stacker::way_of_groups(ScopeId id, GroupBy by) {
  const SiteTable& sites = profile_.replay().sites();
  std::vector<uint64_t> at_peak(sites.group_count());
  std::map<uint32_t, GroupId> of_row;
  for (const Contribution& part : profile_.at_peak(id)) {
    at_peak[part.group] = part.bytes;
    of_row.emplace(profile_.sites().row_of(part.group), part.group);
  }
  Numbers phases;
  std::map<PhaseId, uint32_t> of_phase;
  const auto key_of = [&](GroupId group) -> uint32_t {
    const SiteContext& context = sites.context_of(group);
    if (by == GroupBy::kSite) return profile_.sites().row_of(group);
    if (by == GroupBy::kTag) return profile_.tagger().tag(group);
    if (by == GroupBy::kKind) return context.kind;
    const auto [known, is_new] = of_phase.try_emplace(context.phase, 0);
    if (is_new) known->second = phases.of(phase_title(profile_, context.phase));
    return known->second;
  };
  Keys keys(sites.group_count());
  for (GroupId group{0}; group < keys.size(); ++group) {
    if (profile_.counts_into(group, id)) keys[group] = key_of(group);
  }
  Way way;
  name_parts(way, keys, at_peak, [&](uint32_t key) -> std::string {
    if (by == GroupBy::kSite) return profile_.sites().holder({of_row.at(key), 0, 0}, false).title;
    if (by == GroupBy::kTag) return profile_.tagger().name(key);
    if (by == GroupBy::kKind) return std::string(kind_name(static_cast<uint8_t>(key)));
    return phases.text(key);
  });
  return way;
}

void Stacker::change(std::span<const PeakFinder::Change> step, bool of_holders) {
  for (Sum& sum : sums_) {
    for (Way& way : sum.ways) {
      if (way.of_holders != of_holders) continue;
      for (const PeakFinder::Change& part : step) way.change(part.group, part.bytes);
    }
  }
}

void Stacker::after(const Replay& replay, uint64_t number, uint64_t ticks) {
  for (Sum& sum : sums_) {
    if (sum.next == sum.events.size() || sum.events[sum.next] != number) continue;
    ++sum.next;
    take(replay, sum, ticks);
  }
}

void Stacker::take(const Replay& replay, Sum& sum, uint64_t ticks) {
  if (sum.id >= replay.peaks().scope_count()) return;  // nothing has counted into it yet
  const uint64_t whole = replay.current(sum.id);
  for (Way& way : sum.ways) {
    Stacked::Moment& moment = way.by.moments.emplace_back();
    moment.time_ns = profile_.to_ns(ticks);
    uint64_t all = 0;
    for (const int64_t bytes : way.bytes) {
      moment.bytes.push_back(static_cast<uint64_t>(bytes));
      all += static_cast<uint64_t>(bytes);
    }
    sum.adds_up = sum.adds_up && all == whole;
    std::vector<Stacked::Moment>& moments = way.by.moments;
    if (moments.size() > 1 && moments[moments.size() - 2].bytes == moment.bytes) moments.pop_back();
  }
}

std::vector<Stacked> Stacker::result() {
  std::vector<Stacked> all;
  for (Sum& sum : sums_) {
    if (!sum.adds_up) continue;
    Stacked& stacked = all.emplace_back();
    stacked.scope = std::move(sum.scope);
    for (Way& way : sum.ways) stacked.ways.push_back(std::move(way.by));
  }
  return all;
}

std::vector<Stacked> stacked_over_time(Profile& profile, const TimeSeries& times, GroupBy by,
                                       const Progress& progress) {
  class Watcher : public ReplayObserver {
   public:
    Watcher(Profile& of, const TimeSeries& series, GroupBy way) : stacker_(of, series, {&way, 1}) {}
    void on_step(std::span<const PeakFinder::Change> step) override { stacker_.on_step(step); }
    void on_arena_step(std::span<const PeakFinder::Change> step) override {
      stacker_.on_arena_step(step);
    }
    void after(const Event& event) override { stacker_.after(replay(), number_++, event.ticks); }
    std::vector<Stacked> result() { return stacker_.result(); }

   private:
    Stacker stacker_;
    uint64_t number_ = 0;
  };
  Watcher watcher(profile, times, by);
  profile.replay_again(watcher, progress);
  return watcher.result();
}

}  // namespace gpupeak::collector
