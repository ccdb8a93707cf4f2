#include "collector/timeline/instants.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "collector/analyze/call_tree.h"
#include "collector/analyze/summary_parts.h"
#include "collector/log/kinds.h"
#include "collector/text/lists.h"
#include "collector/timeline/moment.h"

namespace gpupeak::collector {
namespace {

std::string phase_title(const Profile& profile, PhaseId phase) {
  return profile.sites().phase_name(phase).value_or("(no phase)");
}

/// Watches one replay for all devices and the host.
class Stacker : public ReplayObserver {
 public:
  /// `ways`: some of kStackedBy.
  Stacker(Profile& profile, const TimeSeries& times, std::span<const GroupBy> ways)
      : profile_(profile) {
    for (const ScopeId id : sides(profile)) {
      const ScopeInfo& info = profile.scope_info(id);
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
      const size_t moments = std::min(Stacked::kMostOfOne, kMostMoments / sums_.size());
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

  void on_step(std::span<const PeakFinder::Change> step) override { change(step, false); }
  void on_arena_step(std::span<const PeakFinder::Change> step) override { change(step, true); }
  void after(const Event& event) override {
    for (Sum& sum : sums_) {
      if (sum.next == sum.events.size() || sum.events[sum.next] != number_) continue;
      ++sum.next;
      take(sum, event.ticks);
    }
    ++number_;
  }
  /// The result. A sum whose parts did not add up is left out: that happens if the log grew
  /// meanwhile.
  std::vector<Stacked> result() {
    std::vector<Stacked> all;
    for (Sum& sum : sums_) {
      if (!sum.adds_up) continue;
      Stacked& stacked = all.emplace_back();
      stacked.scope = std::move(sum.scope);
      for (Way& way : sum.ways) stacked.ways.push_back(std::move(way.by));
    }
    return all;
  }

 protected:
  Profile& profile_;
  uint64_t number_ = 0;  ///< of the next event

 private:
  static constexpr size_t kEventsOfPart = 3, kMostArenas = 8;
  static constexpr size_t kMostMoments = 6000;  ///< of all sums together
  /// In place of a part: it does not count into the sum.
  static constexpr uint8_t kNone = UINT8_MAX;
  struct Way {
    bool of_holders = false;  ///< of a device's arenas and what is outside them; else of groups
    std::vector<uint8_t> part_of;  ///< by HolderId or group
    std::vector<int64_t> bytes;    ///< now, by part
    Stacked::By by;

    void change(size_t of, int64_t by_bytes) {
      if (of < part_of.size() && part_of[of] != kNone) bytes[part_of[of]] += by_bytes;
    }
  };
  struct Sum {
    std::string scope;
    int32_t device = -1;           ///< -1: the host
    std::vector<uint64_t> events;  ///< events after which moments are taken
    size_t next = 0;
    std::vector<Way> ways;
    ScopeId id{};
    bool adds_up = true;
  };
  /// What each group or holder is told apart by, as a number; none: it is not in the sum.
  using Keys = std::vector<std::optional<uint32_t>>;
  using TitleOf = std::function<std::string(uint32_t key)>;

  /// Counts a change of groups, or of holders.
  void change(std::span<const PeakFinder::Change> step, bool of_holders) {
    for (Sum& sum : sums_) {
      for (Way& way : sum.ways) {
        if (way.of_holders != of_holders) continue;
        for (const PeakFinder::Change& part : step) way.change(part.group, part.bytes);
      }
    }
  }
  Way way_of_holders(int32_t device, ScopeId driver, GroupBy by) {
    const Replay& replay = profile_.replay();
    const ArenaTable& table = replay.arenas();
    Keys keys(table.holders().size());
    std::vector<uint64_t> at_peak(keys.size());
    Numbers<std::string> titles;
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
    name_parts(way, keys, at_peak, [&](uint32_t key) { return titles[key]; });
    return way;
  }
  Way way_of_groups(ScopeId id, GroupBy by) {
    const SiteTable& sites = profile_.replay().sites();
    std::vector<uint64_t> at_peak(sites.group_count());
    std::map<uint32_t, GroupId> of_row;
    for (const Contribution& part : profile_.at_peak(id)) {
      at_peak[part.group] = part.bytes;
      of_row.emplace(profile_.sites().row_of(part.group), part.group);
    }
    Numbers<std::string> phases;
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
      return phases[key];
    });
    return way;
  }
  /// Chooses and names a way's parts. `keys`, `at_peak`: by HolderId or group.
  static void name_parts(Way& way, const Keys& keys, const std::vector<uint64_t>& at_peak,
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
    std::ranges::stable_sort(largest, std::greater(), [](const auto& one) { return one.first; });
    if (largest.size() > Stacked::kParts) largest.resize(Stacked::kParts);
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
  void take(Sum& sum, uint64_t ticks) {
    if (sum.id >= replay().peaks().scope_count()) return;  // nothing has counted into it yet
    const uint64_t whole = replay().current(sum.id);
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
      if (moments.size() > 1 && moments[moments.size() - 2].bytes == moment.bytes)
        moments.pop_back();
    }
  }

  std::vector<Sum> sums_;
};

using Reasons = std::map<uint64_t, std::string>;  // event → reason

void choose_peaks(const Profile& profile, const TimeSeries& times, Reasons& chosen) {
  for (const ScopeId id : profile.scopes()) {
    const std::string& name = profile.scope_info(id).name;
    const Series* series = times.find(name);
    if (series == nullptr) continue;
    const uint64_t event = TimeSeries::peak_event(*series);
    if (event == kNoEvent || chosen.size() >= kMaxInstants / 2) continue;
    std::string& reason = chosen[event];
    reason += (reason.empty() ? "peak of " : ", ") + name;
  }
}

void choose_borders(const TimeSeries& times, Reasons& chosen) {
  for (const Border& border : times.borders()) {
    if (chosen.size() >= kMaxInstants * 3 / 4) return;
    std::string& reason = chosen[border.event];
    if (reason.empty()) reason = border.failure ? "failed allocation" : "phase border";
  }
}

/// Chooses the highest moment of each part of the run: a click on the curve there means that.
void choose_spread(const Profile& profile, const TimeSeries& times, Reasons& chosen) {
  std::vector<const Series*> main;
  for (const ScopeId id : sides(profile)) main.push_back(times.find(profile.scope_info(id).name));
  std::erase(main, nullptr);
  if (main.empty()) return;
  const size_t slices = (kMaxInstants - std::min(chosen.size(), kMaxInstants)) / main.size();
  for (const Series* series : main) {
    for (const uint64_t event : TimeSeries::highest_events(*series, slices))
      chosen.try_emplace(event);
  }
}

/// Takes stock at the chosen events, and notes all changes as long as they are few.
class StockTaker : public Stacker {
 public:
  StockTaker(Profile& profile, const TimeSeries& times, Reasons chosen, size_t top)
      : Stacker(profile, times, std::array{GroupBy::kSite, GroupBy::kTag}),
        chosen_(std::move(chosen)),
        next_(chosen_.begin()),
        top_(top) {
    const SiteTable& sites = profile.replay().sites();
    std::map<std::tuple<int32_t, uint8_t, uint32_t>, uint32_t> cells;
    for (GroupId group{0}; group < sites.group_count(); ++group) {
      const SiteContext& context = sites.context_of(group);
      const std::tuple key{context.device, context.kind, profile.sites().row_of(group)};
      const auto [cell, added] = cells.try_emplace(key, static_cast<uint32_t>(cells_.size()));
      if (added) cells_.push_back({context.device, context.kind, std::get<2>(key), group, 0, 0});
      cell_of_.push_back(cell->second);
    }
    for (uint32_t cell = 0; cell < cells_.size(); ++cell) {
      by_kind_[{cells_[cell].device, cells_[cell].kind}].push_back(cell);
    }
    result_.device_changes.emplace();
    result_.host_changes.emplace();
  }

  void on_step(std::span<const PeakFinder::Change> step) override {
    Stacker::on_step(step);
    for (const PeakFinder::Change& change : step)
      changes_.push_back({change.group, change.bytes, change.count, &change == step.data()});
  }

  void after(const Event& event) override {
    for (const Change& change : changes_) note(change, event.ticks);
    changes_.clear();
    const uint64_t number = number_;
    Stacker::after(event);
    if (next_ == chosen_.end() || next_->first != number) return;
    // A log that is still being written may have grown since the first replay.
    const bool grown = replay().sites().group_count() > cell_of_.size();
    if (!grown) take(event.ticks);
    next_ = grown ? chosen_.end() : std::next(next_);
  }

  Instants result() {
    result_.calls = held_calls(profile_, largest_of_all(), kMostCalls);
    for (std::optional<PlaceChanges>* side : {&result_.device_changes, &result_.host_changes}) {
      if (!*side) continue;
      for (PlaceChange& change : **side) change.place = place_of(GroupId(change.place));
    }
    for (Instant& instant : result_.instants) {
      std::erase_if(instant.held,
                    [this](const HeldThere& held) { return has_all_changes(GroupId(held.place)); });
      for (HeldThere& held : instant.held) held.place = place_of(GroupId(held.place));
    }
    result_.stacked = Stacker::result();
    return std::move(result_);
  }

 private:
  struct Cell {
    int32_t device;
    uint8_t kind;
    uint32_t row;
    GroupId group;  // any group of this row
    uint64_t bytes, count;
  };
  struct Change {
    GroupId group;
    int64_t bytes;
    int32_t count;
    bool begins_step;
  };

  // Until result() a place is the number of a group.

  std::optional<PlaceChanges>& changes_of(GroupId group) {
    return is_device_kind(cells_[cell_of_[group]].kind) ? result_.device_changes
                                                        : result_.host_changes;
  }
  bool has_all_changes(GroupId group) { return changes_of(group).has_value(); }

  /// The most that each group held, for groups that are shown somewhere.
  std::map<GroupId, uint64_t> largest_of_all() {
    std::map<GroupId, uint64_t> largest;
    std::map<GroupId, int64_t> now;
    for (const std::optional<PlaceChanges>* side :
         {&result_.device_changes, &result_.host_changes}) {
      if (!*side) continue;
      for (const PlaceChange& change : **side) {
        const int64_t bytes = now[GroupId(change.place)] += change.bytes;
        uint64_t& most = largest[GroupId(change.place)];
        most = std::max(most, static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
      }
    }
    for (const Instant& instant : result_.instants) {
      for (const HeldThere& held : instant.held) {
        if (has_all_changes(GroupId(held.place))) continue;
        uint64_t& most = largest[GroupId(held.place)];
        most = std::max(most, held.bytes);
      }
    }
    return largest;
  }

  uint32_t place_of(GroupId group) {
    const uint32_t cell = cell_of_[group];
    const uint32_t call = result_.calls.ends.at(group);
    const auto [place, added] =
        places_.try_emplace({cell, call}, static_cast<uint32_t>(places_.size()));
    if (added) {
      const Cell& of = cells_[cell];
      result_.places.push_back({of.device, of.kind, row_index(of), call});
    }
    return place->second;
  }

  void note(const Change& change, uint64_t ticks) {
    if (change.group >= cell_of_.size()) {  // the log has grown since the first replay
      result_.device_changes.reset();
      result_.host_changes.reset();
      return;
    }
    std::optional<PlaceChanges>& changes = changes_of(change.group);
    if (!changes) return;
    if (changes->size() == kMaxChanges) return changes.reset();
    changes->push_back(
        {profile_.to_ns(ticks), change.group, change.bytes, change.count, change.begins_step});
  }

  void take(uint64_t ticks) {
    for (GroupId id{0}; id < replay().sites().group_count(); ++id) {
      const PeakFinder::Group& group = replay().peaks().group(id);
      Cell& cell = cells_[cell_of_[id]];
      cell.bytes += group.live_bytes;
      cell.count += group.live_count;
    }
    Instant& instant = result_.instants.emplace_back();
    instant.event = next_->first;
    instant.time_ns = profile_.to_ns(ticks);
    instant.reason = next_->second;
    for (const auto& [key, cells] : by_kind_) add_kind(key.first, key.second, cells, instant);
    add_held(instant);
    for (Cell& cell : cells_) cell.bytes = cell.count = 0;
  }

  void add_held(Instant& instant) const {
    std::map<std::pair<bool, int32_t>, std::vector<HeldThere>> sides;
    for (GroupId id{0}; id < replay().sites().group_count(); ++id) {
      const uint64_t bytes = replay().peaks().group(id).live_bytes;
      const Cell& cell = cells_[cell_of_[id]];
      if (bytes > 0) sides[{is_device_kind(cell.kind), cell.device}].push_back({id, bytes});
    }
    for (auto& [side, held] : sides) {
      const size_t most = std::min(kMostHeld, held.size());
      const auto end = held.begin() + static_cast<std::ptrdiff_t>(most);
      std::ranges::partial_sort(held, end, {}, [](const HeldThere& one) {
        return std::pair(UINT64_MAX - one.bytes, one.place);
      });
      instant.held.insert(instant.held.end(), held.begin(), end);
    }
  }

  void add_kind(int32_t device, uint8_t kind, const std::vector<uint32_t>& cells,
                Instant& instant) {
    std::vector<const Cell*> held;
    uint64_t sum = 0;
    for (const uint32_t id : cells) {
      if (cells_[id].bytes == 0) continue;
      held.push_back(&cells_[id]);
      sum += cells_[id].bytes;
    }
    check_sum(device, kind, sum);
    if (held.empty()) return;
    const size_t shown = std::min(top_, held.size());
    std::ranges::partial_sort(
        held, held.begin() + static_cast<std::ptrdiff_t>(shown), {},
        [](const Cell* one) { return std::pair(UINT64_MAX - one->bytes, one->row); });
    KindHolders& holders = instant.kinds.emplace_back();
    holders.device = device;
    holders.kind = kind;
    for (size_t i = 0; i < held.size(); ++i) {
      if (i < shown) {
        holders.rows.push_back({row_index(*held[i]), held[i]->bytes, held[i]->count});
      } else {
        holders.other_bytes += held[i]->bytes;
        ++holders.other_rows;
      }
    }
  }

  void check_sum(int32_t device, uint8_t kind, uint64_t sum) const {
    const std::string side = is_device_kind(kind) ? "device" : "host";
    const std::string one = device >= 0 ? fmt::format("{}:{}", side, device) : side;
    if (device < 0 && is_device_kind(kind)) return;  // there is no scope for it
    if (sum != replay().sum(fmt::format("{}/{}", one, kind_name(kind))).current)
      throw std::logic_error("instants: holders do not add up to the sum");
  }

  uint32_t row_index(const Cell& cell) {
    const auto [known, added] =
        rows_.try_emplace(cell.row, static_cast<uint32_t>(result_.rows.size()));
    if (added) result_.rows.push_back(profile_.sites().holder({cell.group, 0, 0}, false));
    return known->second;
  }

  const Reasons chosen_;
  Reasons::const_iterator next_;
  const size_t top_;
  std::vector<Cell> cells_;  // each is a row on one device
  std::vector<uint32_t> cell_of_;
  std::map<std::pair<int32_t, uint8_t>, std::vector<uint32_t>> by_kind_;
  std::map<uint32_t, uint32_t> rows_;                         // row of the attribution → index
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> places_;  // cell, call → index
  std::vector<Change> changes_;                               // of the current event
  Instants result_;
};

}  // namespace

Instants live_at_instants(Profile& profile, const TimeSeries& times, size_t top,
                          const Progress& progress) {
  Reasons chosen;
  choose_peaks(profile, times, chosen);
  choose_borders(times, chosen);
  choose_spread(profile, times, chosen);
  StockTaker taker(profile, times, std::move(chosen), top);
  profile.replay_again(taker, progress);
  return taker.result();
}

HeldCalls held_calls(Profile& profile, const std::map<GroupId, uint64_t>& largest, size_t most) {
  const auto held = list_of(largest, [](const auto& of) {
    return Contribution{of.first, of.second, 1};
  });
  const CallTree tree(profile, held, CallTree::Order::kFromOutermost);
  const uint64_t smallest = tree.least_of(most);
  HeldCalls found;
  found.calls.emplace_back();
  std::vector<uint32_t> place(tree.size());                 // by node: its call, or its caller's
  std::vector<std::pair<uint32_t, uint32_t>> open{{0, 0}};  // node, call
  while (!open.empty()) {
    const auto [node, call] = open.back();
    open.pop_back();
    place[node] = call;
    for (const uint32_t child : tree.node(node).children) {
      uint32_t at = call;
      if (tree.node(child).bytes >= smallest) {
        at = static_cast<uint32_t>(found.calls.size());
        found.calls.push_back({call, CallTree::title(tree.node(child)), tree.node(child).frame});
      }
      open.emplace_back(child, at);
    }
  }
  for (size_t i = 0; i < held.size(); ++i) found.ends.emplace(held[i].group, place[tree.ends()[i]]);
  return found;
}

std::vector<Stacked> stacked_over_time(Profile& profile, const TimeSeries& times, GroupBy by,
                                       const Progress& progress) {
  Stacker stacker(profile, times, {&by, 1});
  profile.replay_again(stacker, progress);
  return stacker.result();
}

}  // namespace gpupeak::collector
