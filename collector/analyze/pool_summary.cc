#include "collector/analyze/pool_summary.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

using What = ArenaTable::What;

void add_parts(const Replay& replay, Attribution& by_site, size_t arena, size_t top,
               ArenaSummary& out) {
  const ArenaTable& table = replay.arenas();
  std::map<std::string, ArenaSummary::Part> parts;
  for (GroupId group = 0; group < table.holders().size(); ++group) {
    const ArenaTable::Holder& holder = table.holders()[group];
    if (holder.what != What::kInUse || holder.arena != arena) continue;
    const PeakFinder::AtPeak held = table.peaks().at_peak(group, table.arenas()[arena].scope);
    if (held.bytes == 0) continue;
    const std::string title = pool_holder_title(replay, by_site, holder);
    ArenaSummary::Part& part = parts[title];
    part.title = title;
    part.bytes += held.bytes;
    part.count += held.count;
  }
  for (auto& [title, part] : parts) out.parts.push_back(std::move(part));
  std::stable_sort(out.parts.begin(), out.parts.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  for (; out.parts.size() > top; out.parts.pop_back()) out.other_bytes += out.parts.back().bytes;
}

/// At the device's peak.
std::optional<ArenaSummary::Level> level_at_device_peak(const ArenaTable& table, size_t arena) {
  const ScopeId* driver = table.device_scope(table.arenas()[arena].place);
  if (driver == nullptr) return std::nullopt;
  ArenaSummary::Level level;
  for (GroupId group = 0; group < table.holders().size(); ++group) {
    const ArenaTable::Holder& holder = table.holders()[group];
    if (holder.what == What::kOutside || holder.arena != arena) continue;
    const uint64_t bytes = table.peaks().at_peak(group, *driver).bytes;
    level.reserved_bytes += bytes;
    if (holder.what == What::kInUse) level.in_use_bytes += bytes;
  }
  return level;
}

}  // namespace

std::string pool_holder_title(const Replay& replay, Attribution& by_site,
                              const ArenaTable::Holder& holder) {
  return holder.name != 0 ? replay.log().definitions().shown(replay.name(holder.name))
                          : by_site.site_title(holder.stack);
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
    out.at_device_peak = level_at_device_peak(table, index);
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
    add_parts(replay, by_site, index, top, out);
  }
  std::stable_sort(summaries.begin(), summaries.end(),
                   [](const auto& a, const auto& b) { return a.peak_bytes > b.peak_bytes; });
  return summaries;
}

void add_pool_rows(const Replay& replay, Attribution& by_site, const std::vector<PoolPart>& parts,
                   size_t top, Peak& peak) {
  std::map<std::pair<std::string, std::string>, Holder> rows;  // by title and kind
  for (const PoolPart& part : parts) {
    const std::string title = part.is_idle() ? idle_title(replay, *part.holder)
                                             : pool_holder_title(replay, by_site, *part.holder);
    const char* kind = part.is_idle() ? "device.idle" : "device.pooled";
    Holder& row = rows[{title, kind}];
    row.title = title;
    row.kind = kind;
    row.bytes += part.bytes;
    row.count += part.count;
  }
  for (auto& [key, row] : rows) peak.holders.push_back(std::move(row));
  std::stable_sort(peak.holders.begin(), peak.holders.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  for (; peak.holders.size() > top; peak.holders.pop_back()) {
    peak.other_bytes += peak.holders.back().bytes;
    ++peak.other_sites;
  }
}

}  // namespace gpupeak::collector
