#include <algorithm>
#include <map>
#include <utility>

#include "collector/analyze/summary_parts.h"

namespace gpupeak::collector {
namespace {

using Use = ArenaTable::What;

/// Who had memory of an arena in use at the peak of a scope, the largest first.
std::vector<ArenaSummary::Part> parts_at_peak(const Replay& replay, Attribution& by_site,
                                              size_t arena, ScopeId scope, size_t top,
                                              uint64_t& other_bytes) {
  const ArenaTable& table = replay.arenas();
  std::map<std::string, Holder> rows;  // by site
  for (GroupId group{0}; group < table.holders().size(); ++group) {
    const ArenaTable::Holder& holder = table.holders()[group];
    if (holder.what != Use::kInUse || holder.arena != arena) continue;
    const PeakFinder::AtPeak held = table.peaks().at_peak(group, scope);
    if (held.bytes == 0) continue;
    Holder row = arena_holder_row(replay, by_site, holder, "");
    add_part(rows.try_emplace(row_key(row), std::move(row)).first->second, held);
  }
  std::vector<ArenaSummary::Part> parts =
      list_of(largest_first(std::move(rows)), [](const Holder& row) {
        return ArenaSummary::Part{row.title, row.bytes, row.count};
      });
  for (; parts.size() > top; parts.pop_back()) other_bytes += parts.back().bytes;
  return parts;
}

/// The instant at which the arena had reserved most.
ArenaSummary::Largest largest_of(const Replay& replay, Attribution& by_site, size_t arena,
                                 size_t top) {
  const ArenaTable& table = replay.arenas();
  const ScopeId scope = table.arenas()[arena].reserved_scope;
  ArenaSummary::Largest largest;
  largest.time_ns = replay.log().clock().to_ns(table.peaks().scope(scope).peak_ticks);
  largest.parts = parts_at_peak(replay, by_site, arena, scope, top, largest.other_bytes);
  largest.in_use_bytes = largest.other_bytes + sum_of(largest.parts, &ArenaSummary::Part::bytes);
  return largest;
}

std::string cause_title(const ArenaTable::Arena& arena, Attribution& by_site, GroupId taken_by) {
  if (taken_by != kNoGroup) return by_site.holder({taken_by, 0, 0}, false).title;
  return arena.place == ArenaAccounts::kHost ? "host memory" : "memory that no recorded call took";
}

using TitleOfCause = std::function<std::string(GroupId taken_by)>;

/// Adds what made an arena as large as it was at most, and when it grew. `out`: an ArenaSummary, or
/// another class with the same fields.
void add_causes(const ArenaCauses& table, size_t arena, const ClockMap& clock,
                const TitleOfCause& title_of, size_t top, auto& out) {
  std::map<std::string, ArenaSummary::Cause> causes;  // by title
  for (GroupId group{0}; group < table.causes().size(); ++group) {
    const ArenaCauses::Cause& cause = table.causes()[group];
    if (cause.arena != arena) continue;
    const PeakFinder::AtPeak held = table.at_largest(group);
    if (held.bytes == 0) continue;
    std::string title = title_of(cause.taken_by);
    ArenaSummary::Cause& row = causes[title];
    row.bytes += held.bytes;
    row.segments += held.count;
    if (cause.largest.bytes <= row.largest_bytes) continue;
    row.title = std::move(title);
    row.largest_bytes = cause.largest.bytes;
    row.largest_asked_bytes = cause.largest.asked_bytes;
    row.in_use_bytes = cause.in_use_bytes;
    row.time_ns = clock.to_ns(cause.ticks);
  }
  out.causes = values_of(std::move(causes));
  std::ranges::stable_sort(out.causes, std::greater(), &ArenaSummary::Cause::bytes);
  for (; out.causes.size() > top; out.causes.pop_back())
    out.other_cause_bytes += out.causes.back().bytes;

  std::vector<ArenaCauses::Growth> growths = table.growths(arena);
  std::ranges::stable_sort(growths, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (growths.size() > top) growths.resize(top);
  std::ranges::stable_sort(growths, [](const auto& a, const auto& b) { return a.ticks < b.ticks; });
  for (const ArenaCauses::Growth& growth : growths)
    out.growths.push_back({title_of(growth.taken_by), clock.to_ns(growth.ticks), growth.bytes,
                           growth.asked_bytes, growth.in_use_bytes, growth.reserved_bytes});
}

std::string pool_cause_title(Attribution& by_site, GroupId taken_by) {
  if (taken_by == PoolReserves::kSeveral) return "not known: several requests between two readings";
  if (taken_by == PoolReserves::kLeft) return "not known: left when memory was given back";
  return by_site.holder({taken_by, 0, 0}, false).title;
}

/// Adds what the arena had at the device's peak.
void add_level_at_device_peak(const ArenaTable& table, size_t arena, ArenaSummary& out) {
  const ScopeId* driver = table.device_scope(table.arenas()[arena].place);
  if (driver == nullptr) return;
  ArenaSummary::Level level;
  for (GroupId group{0}; group < table.holders().size(); ++group) {
    const ArenaTable::Holder& holder = table.holders()[group];
    if (holder.what == Use::kOutside || holder.arena != arena) continue;
    const uint64_t bytes = table.peaks().at_peak(group, *driver).bytes;
    level.reserved_bytes += bytes;
    if (holder.what == Use::kInUse) level.in_use_bytes += bytes;
    if (holder.never_used) out.never_used_bytes += bytes;
    if (holder.what != Use::kIdle) continue;
    if (holder.idle_in == ArenaTable::IdleIn::kHole) out.idle_in_holes_bytes += bytes;
    if (holder.idle_in == ArenaTable::IdleIn::kGraph) out.idle_for_graphs_bytes += bytes;
  }
  out.at_device_peak = level;
}

}  // namespace

std::string arena_holder_title(const Replay& replay, Attribution& by_site,
                               const ArenaTable::Holder& holder) {
  return holder.name != 0 ? replay.log().definitions().shown(replay.name(holder.name))
                          : by_site.site_title(holder.stack);
}

Holder arena_holder_row(const Replay& replay, Attribution& by_site,
                        const ArenaTable::Holder& holder, std::string_view kind) {
  Holder row;
  row.title = arena_holder_title(replay, by_site, holder);
  row.kind = kind;
  if (holder.name != 0) return row;
  row.parts = by_site.parts(holder.stack);
  row.module = by_site.site_module(holder.stack);
  return row;
}

std::vector<ArenaSummary> summarize_arenas(const Replay& replay, Attribution& by_site, size_t top) {
  std::vector<ArenaSummary> summaries;
  const ArenaTable& table = replay.arenas();
  for (size_t index = 0; index < table.arenas().size(); ++index) {
    const ArenaTable::Arena& arena = table.arenas()[index];
    const PeakFinder::Scope& scope = table.peaks().scope(arena.scope);
    ArenaSummary& out = summaries.emplace_back();
    out.name = replay.log().definitions().shown(replay.name(arena.name));
    if (arena.place >= 0) out.device = arena.place;
    out.on_host = arena.place == ArenaAccounts::kHost;
    out.at_peak = {scope.peak, arena.reserved_at_peak};
    out.largest_idle_bytes = arena.largest_idle_at_peak;
    add_level_at_device_peak(table, index, out);
    out.reserved_peak_bytes = table.peaks().scope(arena.reserved_scope).peak;
    out.reserved_bytes = table.level(index).reserved;
    out.failed_count = arena.failed_count;
    out.checks = arena.told;
    out.contradictions = arena.contradictions;
    out.count = arena.count;
    if (arena.largest_capacity_bytes > 0) out.capacity_bytes = arena.largest_capacity_bytes;
    out.live_bytes = scope.current;
    out.peak_bytes = scope.peak;
    out.peak_time_ns = replay.log().clock().to_ns(scope.peak_ticks);
    out.alloc_count = arena.alloc_count;
    out.parts = parts_at_peak(replay, by_site, index, arena.scope, top, out.other_bytes);
    if (arena.has_older) {
      out.older = ArenaSummary::Older{table.older_bytes(index)};
      continue;
    }
    out.largest = largest_of(replay, by_site, index, top);
    const auto title_of = [&](GroupId taken_by) { return cause_title(arena, by_site, taken_by); };
    add_causes(table.causes(), index, replay.log().clock(), title_of, top, out);
  }
  std::ranges::stable_sort(summaries, std::greater(), &ArenaSummary::peak_bytes);
  return summaries;
}

std::vector<DriverPoolsSummary> summarize_driver_pools(const Replay& replay, Attribution& by_site,
                                                       size_t top) {
  std::vector<DriverPoolsSummary> all;
  const PoolReserves& pools = replay.device().pools();
  const ClockMap& clock = replay.log().clock();
  for (const auto& [device, largest] : pools.largest()) {
    if (largest.reserved_bytes == 0) continue;
    DriverPoolsSummary& out = all.emplace_back();
    out.device = device;
    out.reserved_peak_bytes = largest.reserved_bytes;
    out.reserved_bytes = pools.reserved().at(device).current;
    out.time_ns = clock.to_ns(largest.ticks);
    out.in_use_bytes = largest.in_use_bytes;
    const auto title_of = [&](GroupId taken_by) { return pool_cause_title(by_site, taken_by); };
    add_causes(pools.causes(), static_cast<size_t>(device), clock, title_of, top, out);
  }
  return all;
}

std::vector<Holder> largest_first(std::map<std::string, Holder> rows) {
  std::vector<Holder> apart = values_of(std::move(rows));
  tell_apart(apart);
  std::ranges::stable_sort(apart, std::greater(), &Holder::bytes);
  return apart;
}

void add_arena_rows(const Replay& replay, Attribution& by_site, const std::vector<ArenaPart>& parts,
                    size_t top, Peak& peak) {
  std::map<std::string, Holder> rows;
  for (const ArenaPart& part : parts) {
    Holder row;
    if (part.is_idle()) {
      row.title = idle_title(replay, *part.holder);
      row.kind = "device.idle";
    } else {
      row = arena_holder_row(replay, by_site, *part.holder, "device.pooled");
    }
    add_part(rows.try_emplace(row_key(row), std::move(row)).first->second, part);
  }
  for (auto& [key, row] : rows) peak.holders.push_back(std::move(row));
  tell_apart(peak.holders);
  std::ranges::stable_sort(peak.holders, std::ranges::greater(), &Holder::bytes);
  for (; peak.holders.size() > top; peak.holders.pop_back()) {
    peak.other_bytes += peak.holders.back().bytes;
    ++peak.other_sites;
  }
}

void add_holders(const Replay& replay, Attribution& by_site, Attribution& by_choice,
                 const PeakParts& parts, const std::vector<Contribution>& takers, size_t top,
                 bool with_stacks, Peak& peak, const RowRoles* roles) {
  // By function, module … an arena's memory counts for the calls that took it from the driver.
  const bool inside = by_choice.by() == GroupBy::kSite;
  HolderTable table = by_choice.table(inside ? parts.outside : takers, top, with_stacks, roles);
  peak.holders = std::move(table.rows);
  peak.other_bytes = table.other_bytes;
  peak.other_sites = table.other_rows;
  peak.error_bytes = table.error_bytes;
  if (inside && !parts.in_arenas.empty())
    add_arena_rows(replay, by_site, parts.in_arenas, top, peak);
}

}  // namespace gpupeak::collector
