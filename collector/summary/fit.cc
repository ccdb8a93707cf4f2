#include "collector/summary/fit.h"

#include <algorithm>
#include <utility>

#include "collector/text/name_match.h"

namespace gpupeak::collector {
namespace {

using Bytes = std::optional<uint64_t>;

Bytes sum(Bytes a, Bytes b) {
  return a && b ? Bytes(*a + *b) : std::nullopt;
}
/// The higher one of two lower bounds that both hold.
Bytes higher(Bytes a, Bytes b) {
  return a && b ? std::max(a, b) : a ? a : b;
}
Bytes largest(Bytes a, Bytes b) {
  return a && b ? std::max(a, b) : std::nullopt;
}

void add_new(std::vector<std::string>& to, const std::vector<std::string>& from) {
  for (const std::string& text : from) {
    if (std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
  }
}

/// The ranges with which the run fails; without a simulation, everything below the upper bound.
std::vector<FitRange> fails_of(const DeviceNeed& need) {
  return need.fails.empty() ? std::vector{FitRange{0, need.most_bytes.value_or(0)}} : need.fails;
}

void add_bounds_and_texts(DeviceNeed& to, const DeviceNeed& from) {
  for (const auto bound : {&DeviceNeed::in_use_bytes, &DeviceNeed::least_bytes,
                           &DeviceNeed::padding_bytes, &DeviceNeed::refused_bytes})
    to.*bound = higher(to.*bound, from.*bound);
  add_new(to.no_most, from.no_most);
  add_new(to.no_least, from.no_least);
  add_new(to.notes, from.notes);
  to.left_out.insert(to.left_out.end(), from.left_out.begin(), from.left_out.end());
  if (to.name.empty()) to.name = from.name;
  if (to.uuid.empty()) to.uuid = from.uuid;
  to.card_bytes = std::max(to.card_bytes, from.card_bytes);
}

}  // namespace

std::vector<FitRange> joined(std::vector<FitRange> ranges) {
  std::ranges::sort(ranges, {}, &FitRange::begin);
  std::vector<FitRange> all;
  for (const FitRange& range : ranges) {
    if (range.begin >= range.end) continue;
    if (!all.empty() && range.begin <= all.back().end) {
      all.back().end = std::max(all.back().end, range.end);
    } else {
      all.push_back(range);
    }
  }
  return all;
}

DeviceNeed together(const std::vector<DeviceNeed>& needs) {
  DeviceNeed all = needs.front();
  for (size_t i = 1; i < needs.size(); ++i) {
    const DeviceNeed& one = needs[i];
    all.held_bytes += one.held_bytes;
    all.most_bytes = sum(all.most_bytes, one.most_bytes);
    // An arena may not get what another process gives back, since arenas fill what room there is.
    all.fails.clear();
    all.no_simulation = "several processes share the card, and one takes what another gave back";
    all.beyond_bytes = sum(all.beyond_bytes, one.beyond_bytes);
    all.local_memory_bytes += one.local_memory_bytes;
    add_bounds_and_texts(all, one);
  }
  return all;
}

DeviceNeed in_turn(const std::vector<DeviceNeed>& needs) {
  DeviceNeed all = needs.front();
  for (size_t i = 1; i < needs.size(); ++i) {
    const DeviceNeed& one = needs[i];
    all.held_bytes = std::max(all.held_bytes, one.held_bytes);
    if (!all.fails.empty() || !one.fails.empty()) {
      std::vector<FitRange> fails = fails_of(all);
      for (const FitRange& range : fails_of(one)) fails.push_back(range);
      all.fails = joined(std::move(fails));
    }
    all.arena_requests += one.arena_requests;
    all.arena_repeated += one.arena_repeated;
    if (all.simulated.empty()) all.simulated = one.simulated;
    if (all.no_simulation.empty()) all.no_simulation = one.no_simulation;
    all.most_bytes = largest(all.most_bytes, one.most_bytes);
    all.beyond_bytes = largest(all.beyond_bytes, one.beyond_bytes);
    all.local_memory_bytes = std::max(all.local_memory_bytes, one.local_memory_bytes);
    add_bounds_and_texts(all, one);
  }
  return all;
}

std::string_view fit_name(Fit fit) {
  constexpr std::string_view kNames[] = {"fits", "may_fit", "does_not_fit", "unknown"};
  return kNames[static_cast<size_t>(fit)];
}

Fit worse(Fit a, Fit b) {
  const auto rank = [](Fit fit) {
    return fit == Fit::kFits ? 0 : fit == Fit::kMayFit ? 1 : fit == Fit::kUnknown ? 2 : 3;
  };
  return rank(a) >= rank(b) ? a : b;
}

FitBounds fit_bounds(const DeviceNeed& need, bool same_kind) {
  FitBounds bounds;
  bounds.margin = kSameCardMargin;
  if (same_kind) {
    bounds.least = higher(need.least_bytes, need.refused_bytes);
  } else {
    // Nobody knows how much the driver would need for itself at least.
    bounds.least = need.in_use_bytes;
    const uint64_t beyond = need.beyond_bytes.value_or(0);
    // It would ask for what ended the run on another card, too.
    if (need.beyond_bytes && need.refused_bytes && *need.refused_bytes > beyond)
      bounds.least = higher(bounds.least, *need.refused_bytes - beyond);
    const uint64_t local = std::min(need.local_memory_bytes, beyond);
    bounds.margin += std::max(kOtherCardMargin, (beyond - local) / 2);
    bounds.margin += (kLocalMemoryTimes - 1) * local;
  }
  bounds.most = sum(need.most_bytes, bounds.margin);
  if (!bounds.most) return bounds;
  for (const FitRange& range : need.fails)
    bounds.unsure.push_back({range.begin, range.end + bounds.margin});
  bounds.unsure = joined(std::move(bounds.unsure));
  return bounds;
}

std::optional<uint64_t> enough(const FitBounds& bounds) {
  return bounds.unsure.empty() ? bounds.most : bounds.unsure.back().end;
}

FitAnswer fit_into(const FitBounds& bounds, uint64_t least_capacity, uint64_t most_capacity) {
  FitAnswer answer{.bounds = bounds, .capacity = least_capacity};
  if (bounds.least && *bounds.least > most_capacity) {
    answer.fit = Fit::kDoesNotFit;
    answer.capacity = most_capacity;  // the best case: no more than this is missing
    answer.missing = *bounds.least - most_capacity;
    return answer;
  }
  if (!bounds.least && !bounds.most) return answer;
  answer.fit = Fit::kMayFit;
  if (!bounds.most) return answer;
  std::vector<FitRange> unsure = bounds.unsure;
  if (unsure.empty()) unsure.push_back({0, *bounds.most});
  uint64_t from = 0;  // it fits from here to the next range
  for (const FitRange& range : unsure) {
    if (range.begin > most_capacity) break;
    from = range.end;
  }
  if (from <= least_capacity) {
    answer.fit = Fit::kFits;
    answer.left = least_capacity - from;
  } else {
    answer.missing = from - least_capacity;
  }
  return answer;
}

FitAnswer fit_on(const DeviceNeed& need, uint64_t capacity) {
  return fit_into(fit_bounds(need, true), capacity, capacity);
}

FitAnswer fit_on(const DeviceNeed& need, const Card& card) {
  return fit_into(fit_bounds(need, is_card(card, need.name)), card.least_bytes, card.most_bytes);
}

bool is_card(const Card& card, std::string_view device_name) {
  return std::ranges::any_of(
      card.devices, [&](const std::string& device) { return glob_match(device, device_name); });
}

}  // namespace gpupeak::collector
