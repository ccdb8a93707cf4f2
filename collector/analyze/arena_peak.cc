#include "collector/analyze/arena_peak.h"

#include <unordered_map>

namespace gpupeak::collector {
namespace {

using What = ArenaTable::What;

/// The scope in which arenas split a device's memory; nullptr: there is none with the same peak.
const ScopeId* split_scope(const Replay& replay, ScopeId scope) {
  const ScopeInfo& info = replay.sites().scopes()[scope];
  if (info.kind != 0 || info.device < 0) return nullptr;
  const ArenaTable& table = replay.arenas();
  const ScopeId* driver = table.device_scope(info.device);
  const bool same =
      driver != nullptr && table.peaks().scope(*driver).peak == replay.peaks().scope(scope).peak;
  return same ? driver : nullptr;
}

}  // namespace

std::vector<Contribution> contributions_at_peak(const Replay& replay, ScopeId scope) {
  std::vector<Contribution> held;
  held.reserve(replay.peaks().most_at_peak());
  replay.peaks().visit_at_peak(scope, [&](GroupId group, const PeakFinder::AtPeak& at) {
    held.push_back({group, at.bytes, at.count});
  });
  return held;
}

PeakParts split_by_arenas(const ArenaTable& table, size_t count, const HeldByHolder& held_by,
                          std::vector<Contribution> held) {
  PeakParts parts;
  parts.outside = std::move(held);
  std::unordered_map<GroupId, PeakFinder::AtPeak> outside;
  for (size_t id = 0; id < count; ++id) {
    const PeakFinder::AtPeak has = held_by(static_cast<HolderId>(id));
    const ArenaTable::Holder& holder = table.holders()[id];
    if (holder.what == What::kOutside) {
      outside[holder.outside] = has;
    } else if (has.bytes > 0) {
      parts.in_arenas.push_back(
          {&holder, has.bytes, holder.what == What::kIdle ? 0 : uint64_t{has.count}});
    }
  }
  if (parts.in_arenas.empty()) return parts;
  for (Contribution& part : parts.outside) {
    const auto split = outside.find(part.group);
    if (split == outside.end()) continue;
    part.bytes = split->second.bytes;
    part.count = split->second.count;
  }
  std::erase_if(parts.outside, [](const Contribution& part) { return part.bytes == 0; });
  return parts;
}

PeakParts parts_at_peak(const Replay& replay, ScopeId scope) {
  const ScopeId* driver = split_scope(replay, scope);
  if (driver == nullptr) return {contributions_at_peak(replay, scope), {}};
  const ArenaTable& table = replay.arenas();
  return split_by_arenas(
      table, table.holders().size(),
      [&](HolderId id) { return table.peaks().at_peak(as_group(id), *driver); },
      contributions_at_peak(replay, scope));
}

std::string idle_title(const Replay& replay, const ArenaTable::Holder& holder) {
  const uint32_t name = replay.arenas().arenas()[holder.arena].name;
  return "idle in " + replay.log().definitions().shown(replay.name(name)) + "'s pool";
}

}  // namespace gpupeak::collector
