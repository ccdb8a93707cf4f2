#include "collector/timeline/stacked.h"

#include <algorithm>
#include <map>
#include <utility>

#include "collector/analyze/arena_summary.h"

namespace gpupeak::collector {

void Stacker::Way::change(size_t of, int64_t by_bytes) {
  if (of < part_of.size() && part_of[of] != kNone) bytes[part_of[of]] += by_bytes;
}

Stacker::Stacker(Profile& profile, const TimeSeries& times) : profile_(profile) {
  for (const ScopeId id : profile.scopes()) {
    const ScopeInfo& info = profile.scope_info(id);
    if (info.kind == 0 && info.device >= 0) add_device(id);
    if (info.kind == 0 && info.name == "host") add_host(id);
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
    std::sort(sum.events.begin(), sum.events.end());
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
  if (largest.empty()) return;  // nothing is tagged
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
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

void Stacker::add_device(ScopeId id) {
  const Replay& replay = profile_.replay();
  const ArenaTable& table = replay.arenas();
  const int32_t device = profile_.scope_info(id).device;
  const ScopeId* const driver = table.device_scope(device);
  if (driver == nullptr) return;
  Sum& sum = sums_.emplace_back();
  sum.scope = profile_.scope_info(id).name;
  sum.device = device;
  Keys sites, tags;
  std::vector<uint64_t> at_peak;
  std::map<std::string, uint32_t> numbers;
  std::vector<std::string> titles;
  for (size_t number = 0; number < table.holders().size(); ++number) {
    const auto holder_id = static_cast<HolderId>(number);
    const ArenaTable::Holder& holder = table.holder(holder_id);
    sites.emplace_back();
    tags.emplace_back();
    at_peak.push_back(0);
    if (!table.is_of_device(holder_id, device)) continue;
    at_peak.back() = table.peaks().at_peak(as_group(holder_id), *driver).bytes;
    const bool is_outside = holder.what == ArenaTable::What::kOutside;
    std::string title = is_outside ? profile_.sites().holder({holder.outside, 0, 0}, false).title
                        : holder.what == ArenaTable::What::kIdle
                            ? idle_title(replay, holder)
                            : arena_holder_title(replay, profile_.sites(), holder);
    const auto [known, is_new] = numbers.try_emplace(title, static_cast<uint32_t>(titles.size()));
    if (is_new) titles.push_back(std::move(title));
    sites.back() = known->second;
    tags.back() =
        is_outside ? profile_.tagger().tag(holder.outside) : profile_.tagger().tag(holder);
  }
  name_parts(sum.site, sites, at_peak, [&](uint32_t key) { return titles[key]; });
  name_parts(sum.tag, tags, at_peak, [&](uint32_t key) { return profile_.tagger().name(key); });
}

void Stacker::add_host(ScopeId id) {
  const size_t groups = profile_.replay().sites().group_count();
  Sum& sum = sums_.emplace_back();
  sum.scope = profile_.scope_info(id).name;
  Keys sites, tags;
  std::vector<uint64_t> at_peak(groups);
  std::map<uint32_t, GroupId> of_row;
  for (const Contribution& part : profile_.at_peak(id)) {
    at_peak[part.group] = part.bytes;
    of_row.emplace(profile_.sites().row_of(part.group), part.group);
  }
  for (GroupId group{0}; group < groups; ++group) {
    sites.emplace_back();
    tags.emplace_back();
    if (!profile_.counts_into(group, id)) continue;
    sites.back() = profile_.sites().row_of(group);
    tags.back() = profile_.tagger().tag(group);
  }
  name_parts(sum.site, sites, at_peak, [&](uint32_t row) {
    return profile_.sites().holder({of_row.at(row), 0, 0}, false).title;
  });
  name_parts(sum.tag, tags, at_peak, [&](uint32_t key) { return profile_.tagger().name(key); });
}

void Stacker::change(std::span<const PeakFinder::Change> step, bool of_devices) {
  for (Sum& sum : sums_) {
    if ((sum.device >= 0) != of_devices) continue;
    for (const PeakFinder::Change& part : step) {
      sum.site.change(part.group, part.bytes);
      sum.tag.change(part.group, part.bytes);
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
  if (!sum.id) {
    const ScopeId* const scope = replay.sites().find_scope(sum.scope);
    if (scope == nullptr) return;
    sum.id = *scope;
  }
  const uint64_t whole = replay.peaks().scope(*sum.id).current;
  for (Way* const way : {&sum.site, &sum.tag}) {
    if (way->by.parts.empty()) continue;
    Stacked::Moment& moment = way->by.moments.emplace_back();
    moment.time_ns = profile_.to_ns(ticks);
    uint64_t all = 0;
    for (const int64_t bytes : way->bytes) {
      moment.bytes.push_back(static_cast<uint64_t>(bytes));
      all += static_cast<uint64_t>(bytes);
    }
    sum.adds_up = sum.adds_up && all == whole;
    std::vector<Stacked::Moment>& moments = way->by.moments;
    if (moments.size() > 1 && moments[moments.size() - 2].bytes == moment.bytes) moments.pop_back();
  }
}

std::vector<Stacked> Stacker::result() {
  std::vector<Stacked> all;
  for (Sum& sum : sums_) {
    if (sum.adds_up)
      all.push_back({std::move(sum.scope), std::move(sum.site.by), std::move(sum.tag.by)});
  }
  return all;
}

}  // namespace gpupeak::collector
