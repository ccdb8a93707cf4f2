#include "collector/analyze/growth_summary.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "collector/analyze/arena_summary.h"
#include "collector/analyze/phase_summary.h"
#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kLeastPoints = 5, kMostRows = 20, kMostGroups = 2000;
constexpr uint64_t kLeastSteps = 4;
/// A row must have at least 1/1000 of the side's peak, and a page.
constexpr uint64_t kLeastShare = 1000, kLeastBytes = 4096;

/// A site's bytes at the track's points.
struct Line {
  std::vector<uint64_t> bytes;
  std::optional<uint64_t> latest;  ///< at the track's latest point, if it is known there
};
/// The part of a line that grew.
struct Rise {
  size_t from = 0, to = 0;  ///< points
  uint64_t bytes = 0;
  bool same = true;  ///< it grew by as much at each step
};

/// What rows are told apart by: the device, -1 on the host side; and the site.
using Row = std::pair<int32_t, std::string>;

class Growth {
 public:
  Growth(const Replay& replay, Attribution& by_site, bool with_host)
      : replay_(replay), by_site_(by_site), with_host_(with_host) {}

  std::vector<GrowthSummary> list() {
    for (const GrowthTable::Track& track : replay_.growth().tracks()) {
      const size_t count = points_that_count(track);
      if (count >= kLeastPoints) look_at(track, count);
    }
    std::vector<GrowthSummary> rows;
    for (auto& [row, found] : best_) rows.push_back(std::move(found.growth));
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.grown_bytes > b.grown_bytes; });
    if (rows.size() > kMostRows) rows.resize(kMostRows);
    return rows;
  }

 private:
  struct Found {
    GrowthSummary growth;
    int depth = 0;
  };

  /// An instance in which memory ran out stopped half-way, so it is not compared with others.
  size_t points_that_count(const GrowthTable::Track& track) const {
    const uint64_t failed = last_failure_ticks();
    const size_t count = track.points.size();
    if (failed == 0 || count < 2) return count;
    const bool last_is_cut =
        track.points.back().ticks > failed && track.points[count - 2].ticks <= failed;
    return last_is_cut ? count - 1 : count;
  }

  uint64_t last_failure_ticks() const {
    const auto& by_driver = replay_.device().failures();
    const auto& by_arena = replay_.arenas().failures();
    return std::max(by_driver.empty() ? 0 : by_driver.back().ticks,
                    by_arena.empty() ? 0 : by_arena.back().ticks);
  }

  void look_at(const GrowthTable::Track& track, size_t count) {
    std::map<Row, Line> lines;
    for (const PhaseSide side : {kDeviceSide, kHostSide}) {
      if (side == kHostSide && !with_host_) continue;
      for (auto& [group, line] : changing(track, count, side)) add(side, group, line, lines);
    }
    for (const auto& [row, line] : lines) judge(track, row, line);
  }

  /// The groups that hold more or less at some point than at the first.
  std::map<GroupId, Line> changing(const GrowthTable::Track& track, size_t count,
                                   PhaseSide side) const {
    std::map<GroupId, Line> lines;
    for (size_t i = 0; i < count; ++i) {
      for (const GrowthTable::Held& held : track.points[i].sides[side]) {
        Line& line = lines[held.group];
        line.bytes.resize(count);
        line.bytes[i] = held.bytes;
      }
    }
    std::erase_if(lines, [](const auto& entry) {
      const std::vector<uint64_t>& bytes = entry.second.bytes;
      return std::all_of(bytes.begin(), bytes.end(),
                         [&](uint64_t value) { return value == bytes.front(); });
    });
    if (lines.size() > kMostGroups) keep_largest(lines);
    // The latest instance, too, may be the one in which memory ran out.
    const uint64_t failed = last_failure_ticks();
    const bool latest_is_cut = failed > 0 && track.latest.ticks > failed && !track.points.empty() &&
                               track.points.back().ticks <= failed;
    if (count < track.points.size() || latest_is_cut) return lines;
    for (const GrowthTable::Held& held : track.latest.sides[side]) {
      if (const auto line = lines.find(held.group); line != lines.end())
        line->second.latest = held.bytes;
    }
    return lines;
  }

  /// Keeps the largest groups, since each group's site must be looked up in symbols.
  static void keep_largest(std::map<GroupId, Line>& lines) {
    std::vector<uint64_t> last;
    last.reserve(lines.size());
    for (const auto& [group, line] : lines) last.push_back(line.bytes.back());
    std::nth_element(last.begin(), last.begin() + kMostGroups, last.end(), std::greater<>());
    const uint64_t least = last[kMostGroups];
    std::erase_if(lines, [&](const auto& entry) { return entry.second.bytes.back() <= least; });
  }

  void add(PhaseSide side, GroupId group, const Line& line, std::map<Row, Line>& lines) {
    const auto [entry, added] = lines.try_emplace(row_of(side, group), line);
    if (added) return;
    Line& sum = entry->second;
    for (size_t i = 0; i < sum.bytes.size(); ++i) sum.bytes[i] += line.bytes[i];
    sum.latest =
        sum.latest && line.latest ? std::optional(*sum.latest + *line.latest) : std::nullopt;
  }

  Row row_of(PhaseSide side, GroupId group) {
    const SiteTable& sites = replay_.sites();
    if (side == kHostSide) return {-1, by_site_.site_title(sites.info(group).stack)};
    const ArenaTable& arenas = replay_.arenas();
    const ArenaTable::Holder& holder = arenas.holders()[group];
    if (holder.what == ArenaTable::What::kOutside)
      return {holder.device, by_site_.site_title(sites.info(holder.outside).stack)};
    return {arenas.arenas()[holder.arena].place, arena_holder_title(replay_, by_site_, holder)};
  }

  static std::optional<Rise> rise_of(const std::vector<uint64_t>& numbers,
                                     const std::vector<uint64_t>& bytes, size_t from) {
    const size_t last = bytes.size() - 1;
    const uint64_t steps = numbers[last] - numbers[from];
    if (last - from + 1 < kLeastPoints || steps < kLeastSteps || bytes[last] <= bytes[from])
      return std::nullopt;
    Rise rise{from, last, bytes[last] - bytes[from], true};
    const uint64_t first_steps = numbers[from + 1] - numbers[from];
    const uint64_t first_bytes = bytes[from + 1] - bytes[from];
    uint64_t quarters[4] = {};
    for (size_t i = from; i < last; ++i) {
      if (bytes[i + 1] < bytes[i]) return std::nullopt;  // it gives back
      const uint64_t more = bytes[i + 1] - bytes[i], of = numbers[i + 1] - numbers[i];
      rise.same = rise.same && more * first_steps == first_bytes * of;
      quarters[(numbers[i] - numbers[from]) * 4 / steps] += more;
    }
    // "All the time" means that each quarter brings at least half of its share.
    for (const uint64_t quarter : quarters) {
      if (quarter < rise.bytes / 8) return std::nullopt;
    }
    return rise;
  }

  /// Leaves out first instances if need be: what is made only once is made then.
  static std::optional<Rise> rise_of(const std::vector<uint64_t>& numbers,
                                     const std::vector<uint64_t>& bytes) {
    for (size_t from = 0; from <= bytes.size() / 4; ++from) {
      if (const std::optional<Rise> rise = rise_of(numbers, bytes, from)) return rise;
    }
    return std::nullopt;
  }

  void judge(const GrowthTable::Track& track, const Row& row, const Line& line) {
    std::vector<uint64_t> numbers, ticks, bytes = line.bytes;
    for (size_t i = 0; i < bytes.size(); ++i) {
      numbers.push_back(track.points[i].number);
      ticks.push_back(track.points[i].ticks);
    }
    std::optional<Rise> rise = rise_of(numbers, bytes);
    if (!rise) return;
    if (line.latest && rise->same) {
      // What joined since the last point is not known. The latest figure counts only if it goes on
      // at the same rate.
      numbers.push_back(track.latest.number);
      ticks.push_back(track.latest.ticks);
      bytes.push_back(*line.latest);
      const std::optional<Rise> longer = rise_of(numbers, bytes);
      if (longer && longer->same) rise = longer;
    }
    const bool of_host = row.first < 0;
    if (rise->bytes < std::max(peak_of(of_host) / kLeastShare, kLeastBytes)) return;
    Found found;
    found.growth.phase = by_site_.phase_name(track.phase).value_or("");
    found.growth.source = phase_source_name(replay_.phases().phases()[track.phase].source);
    found.growth.side = of_host ? "host" : "device";
    if (!of_host) found.growth.device = row.first;
    found.growth.title = row.second;
    found.growth.first = numbers[rise->from];
    found.growth.last = numbers[rise->to];
    found.growth.to_the_last =
        replay_.phases().phases()[track.phase].count <= found.growth.last + 1;
    found.growth.grown_bytes = rise->bytes;
    found.growth.same_each_time = rise->same;
    found.growth.begin_ns = replay_.log().clock().to_ns(ticks[rise->from]);
    found.growth.end_ns = replay_.log().clock().to_ns(ticks[rise->to]);
    found.depth = depth_of(track.phase);
    const auto [known, added] = best_.try_emplace(row, found);
    if (!added && is_better(found, known->second)) known->second = std::move(found);
  }

  /// Phases within each other grow alike. The outermost one is the step, unless it misses much.
  static bool is_better(const Found& a, const Found& b) {
    const uint64_t more = std::max(a.growth.grown_bytes, b.growth.grown_bytes);
    const uint64_t less = std::min(a.growth.grown_bytes, b.growth.grown_bytes);
    if (more - less > more / 10) return a.growth.grown_bytes == more;
    return a.depth < b.depth;
  }

  int depth_of(PhaseId phase) const {
    int depth = 0;
    for (; phase != 0; phase = replay_.phases().phases()[phase].parent) ++depth;
    return depth;
  }

  uint64_t peak_of(bool host) const {
    const ScopeId* scope = replay_.sites().find_scope(host ? "host" : "device");
    return scope != nullptr ? replay_.peaks().scope(*scope).peak : 0;
  }

  const Replay& replay_;
  Attribution& by_site_;
  const bool with_host_;
  std::map<Row, Found> best_;
};

}  // namespace

std::vector<GrowthSummary> summarize_growth(const Replay& replay, Attribution& by_site,
                                            bool with_host) {
  return Growth(replay, by_site, with_host).list();
}

}  // namespace gpupeak::collector
