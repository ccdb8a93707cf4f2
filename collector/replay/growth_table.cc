#include "collector/replay/growth_table.h"

#include <utility>

#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

uint64_t held_by(const GrowthTable::Point& point) {
  return point.sides[kDeviceSide].size() + point.sides[kHostSide].size();
}

}  // namespace

GrowthTable::Track* GrowthTable::track_of(PhaseId phase) {
  return phase < by_phase_.size() && by_phase_[phase] > 0 ? &tracks_[by_phase_[phase] - 1]
                                                          : nullptr;
}

/// A phase that comes again is watched. Its first instance has just ended, or ended a little while
/// ago.
void GrowthTable::instance_began(PhaseId phase, uint64_t number, uint64_t ticks) {
  const size_t most = few_ ? kFewTracks : kMostTracks;
  if (number != 2 || tracks_.size() >= most || off_[kDeviceSide]) return;
  if (by_phase_.size() <= phase) by_phase_.resize(phase + 1);
  tracks_.emplace_back().phase = phase;
  by_phase_[phase] = static_cast<uint32_t>(tracks_.size());
  keep(tracks_.back(), look(1, ticks));
}

void GrowthTable::instance_ended(PhaseId phase, uint64_t number, uint64_t ticks) {
  Track* const track = track_of(phase);
  // Instances in several threads may end in another order than they began.
  if (track == nullptr || track->points.empty() || number <= track->points.back().number) return;
  if (number % track->stride != 0) return note_latest(*track, number, ticks);
  keep(*track, look(number, ticks));
}

GrowthTable::Point GrowthTable::look(uint64_t number, uint64_t ticks) {
  Point point;
  point.number = number;
  point.ticks = ticks;
  for (const PhaseSide side : {kDeviceSide, kHostSide}) look_at(side, point.sides[side]);
  return point;
}

void GrowthTable::look_at(PhaseSide side, std::vector<Held>& held) {
  if (off_[side]) return;
  const size_t groups =
      side == kDeviceSide ? arenas_.holders().size() : live_.sites().group_count();
  visits_[side] += groups;
  if (visits_[side] > kMostVisits[side] && !few_) keep_few();
  if (visits_[side] > kMostVisits[side]) return give_up(side);
  held.reserve(last_held_[side] + last_held_[side] / 8);
  for (GroupId group{0}; group < groups; ++group) {
    if (const uint64_t bytes = bytes_of(side, group); bytes > 0) held.push_back({group, bytes});
  }
  last_held_[side] = held.size();
}

/// 0 for memory that is no site's, or is counted elsewhere.
uint64_t GrowthTable::bytes_of(PhaseSide side, GroupId group) const {
  if (side == kDeviceSide) {
    const ArenaTable::Holder& holder = arenas_.holders()[group];
    const bool of_device =
        holder.what == ArenaTable::What::kOutside ||
        (holder.what == ArenaTable::What::kInUse && arenas_.arenas()[holder.arena].place >= 0);
    return of_device ? arenas_.peaks().group(group).live_bytes : 0;
  }
  const uint64_t bytes = live_.peaks().group(group).live_bytes;
  if (bytes == 0) return 0;  // most groups, where there are many phases
  const SiteContext& context = live_.sites().context_of(group);
  const bool counts = !is_device_kind(context.kind) && counts_into_sum(context.kind);
  return counts && context.sample_bytes == 0 ? bytes : 0;
}

/// Drops all tracks but the first few, which get a new budget.
void GrowthTable::keep_few() {
  few_ = true;
  for (const PhaseSide side : {kDeviceSide, kHostSide}) visits_[side] = 0;
  for (Track& track : tracks_) {
    if (!is_dropped(track)) continue;
    for (const Point& point : track.points) held_ -= held_by(point);
    track.points.clear();
    track.latest = {};
  }
}

/// Drops a side's points: those of half a run would be wrong for the whole.
void GrowthTable::give_up(PhaseSide side) {
  off_[side] = true;
  for (Track& track : tracks_) {
    for (Point& point : track.points) point.sides[side].clear();
    track.latest.sides[side].clear();
    if (side == kDeviceSide) track.points.clear();
  }
}

void GrowthTable::keep(Track& track, Point point) {
  held_ += held_by(point);
  track.latest = {};
  track.points.push_back(std::move(point));
  if (off_[kDeviceSide] || is_dropped(track)) track.points.clear();
  find_growing(track);
  if (track.points.size() == kMostPoints) thin(track);
  if (held_ > kMostHeld) {
    for (Track& one : tracks_) thin(one);
  }
  if (held_ > kMostHeld) give_up(kHostSide);
}

void GrowthTable::thin(Track& track) {
  if (track.points.size() < kMostPoints / 2) return;
  track.stride *= 2;
  std::erase_if(track.points, [&](const Point& point) {
    // The first stays, since all growth is told from there.
    const bool goes =
        point.number != track.points.front().number && point.number % track.stride != 0;
    if (goes) held_ -= held_by(point);
    return goes;
  });
}

void GrowthTable::find_growing(Track& track) {
  for (std::vector<GroupId>& growing : track.growing) growing.clear();
  if (track.points.size() < 2) return;
  const Point& last = track.points.back();
  const Point& before = track.points[track.points.size() - 2];
  for (const PhaseSide side : {kDeviceSide, kHostSide}) {
    auto old = before.sides[side].begin();
    for (const Held& held : last.sides[side]) {
      while (old != before.sides[side].end() && old->group < held.group) ++old;
      const bool known = old != before.sides[side].end() && old->group == held.group;
      if (held.bytes > (known ? old->bytes : 0)) track.growing[side].push_back(held.group);
    }
  }
}

/// Notes what the growing groups hold now. If that would take too long, the last point is near
/// enough.
void GrowthTable::note_latest(Track& track, uint64_t number, uint64_t ticks) {
  track.latest = {};
  latest_visits_ += 1 + track.growing[kDeviceSide].size() + track.growing[kHostSide].size();
  if (latest_visits_ > kMostLatest) return;
  track.latest.number = number;
  track.latest.ticks = ticks;
  for (const PhaseSide side : {kDeviceSide, kHostSide}) {
    for (const GroupId group : track.growing[side])
      track.latest.sides[side].push_back({group, bytes_of(side, group)});
  }
}

}  // namespace gpupeak::collector
