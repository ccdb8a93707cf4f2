#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "collector/analyze/summary_parts.h"
#include "collector/replay/growth_table.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kLeastPoints = 5, kMostRows = 20, kMostGroups = 2000;
constexpr uint64_t kLeastSteps = 4, kLeastAllocs = 10, kLeastKept = 8;
/// A row must have at least 1/1000 of the side's peak, and a page.
constexpr uint64_t kLeastShare = 1000, kLeastBytes = 4096;
/// Blocks of that many bytes are in no sample.
constexpr uint64_t kLeastWhole = 65536;

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
    add_steady();
    std::vector<GrowthSummary> rows = list_of(values_of(std::move(best_)), &Found::growth);
    std::ranges::stable_sort(rows, std::greater(), &GrowthSummary::grown_bytes);
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
    const size_t count = track.points.size();
    return count > 1 && failed_between(track.points[count - 2], track.points.back()) ? count - 1
                                                                                     : count;
  }
  bool failed_between(const GrowthTable::Point& a, const GrowthTable::Point& b) const {
    const uint64_t failed = last_failure_ticks();
    return failed > 0 && a.ticks <= failed && b.ticks > failed;
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
      return std::ranges::all_of(bytes, [&](uint64_t value) { return value == bytes.front(); });
    });
    if (lines.size() > kMostGroups) keep_largest(lines);
    // The latest instance, too, may be the one in which memory ran out.
    if (count < track.points.size() || failed_between(track.points.back(), track.latest))
      return lines;
    for (const GrowthTable::Held& held : track.latest.sides[side]) {
      if (const auto line = lines.find(held.group); line != lines.end())
        line->second.latest = held.bytes;
    }
    return lines;
  }

  /// Keeps the largest groups, since each group's site must be looked up in symbols.
  static void keep_largest(std::map<GroupId, Line>& lines) {
    std::vector<uint64_t> last =
        list_of(lines, [](const auto& entry) { return entry.second.bytes.back(); });
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
    if (std::ranges::min(quarters) < rise.bytes / 8) return std::nullopt;
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

  uint64_t peak_of(bool host) const { return replay_.sum(host ? "host" : "device").peak; }

  /// A holder that keeps blocks of each of its turns.
  struct Keeper {
    GroupId group{};
    int32_t device = -1;  ///< -1: of the host
    Rise rise;
    uint64_t kept = 0;    ///< blocks, by the end
    uint64_t before = 0;  ///< of the host: what it had before
    bool loops = false;   ///< of the host: others allocate as much between each two of its turns
    uint64_t later_bytes = 0;     ///< of the host: what a sample says that it kept since …
    uint64_t error_bytes = 0;     ///< … with its error
    uint64_t freed = 0;           ///< by anybody meanwhile
    double block_bytes = 0;       ///< of these on average
    uint64_t begin = 0, end = 0;  ///< ticks

    double bytes() const { return static_cast<double>(kept) * block_bytes; }
  };

  /// Looks for growth on devices for which no phase shows any.
  void add_steady() {
    std::map<int32_t, std::vector<Keeper>> keepers;
    const std::vector<SteadyGrowth::Series>& all = replay_.arenas().growth().series();
    for (size_t i = 0; i < all.size(); ++i) {
      const std::optional<Keeper> keeper = keeper_of(HolderId{static_cast<uint32_t>(i)}, all[i]);
      if (keeper) keepers[keeper->device].push_back(*keeper);
    }
    std::map<uint32_t, Threads> calls;  // by stack
    for (const auto& [group, series] : replay_.peaks().growth().series())
      calls[replay_.sites().info(GroupId{group}).stack].emplace_back(GroupId{group}, &series);
    for (const auto& [stack, threads] : calls) {
      const bool come_anyhow = come_evenly_together(threads);
      for (const auto& [group, series] : threads) {
        const std::optional<Keeper> keeper = keeper_of(group, *series, come_anyhow);
        if (keeper) keepers[-1].push_back(*keeper);
      }
    }
    for (const auto& [row, found] : best_) keepers.erase(row.first);
    for (auto& [device, list] : keepers) add_rows(device, list);
  }

  /// Of a program in Python, blocks that none of its lines asked for are no steps of it: autograd
  /// goes through the layers on a thread of its own, and keeps a gradient of each.
  bool has_line_of_its_own(uint32_t node) const {
    const Definitions& definitions = replay_.log().definitions();
    if (definitions.python_frames().size() <= 1) return true;
    for (; node != 0; node = definitions.nodes()[node].parent) {
      if (definitions.python_frame(definitions.nodes()[node]) != nullptr) return true;
    }
    return false;
  }

  std::optional<Keeper> keeper_of(HolderId id, const SteadyGrowth::Series& series) const {
    const std::vector<SteadyGrowth::Point>& points = series.points;
    if (series.allocs < kLeastAllocs || points.size() < kLeastPoints) return std::nullopt;
    const ArenaTable::Holder& held = replay_.arenas().holder(id);
    Keeper keeper;
    keeper.group = as_group(id);
    keeper.device = device_of(held);
    if (keeper.device < 0 || !has_line_of_its_own(held.what == ArenaTable::What::kOutside
                                                      ? replay_.sites().info(held.outside).stack
                                                      : held.stack))
      return std::nullopt;
    // What stays until the run's last allocation is given back by its end, if at all.
    const SteadyGrowth& growth = replay_.arenas().growth();
    const std::optional<Rise> rise = steady_rise(points, peak_of(false) / kLeastShare);
    if (!rise || is_only_loaded(points, *rise, growth.since_last(series), 0) ||
        is_used_long_after(keeper.device, points[rise->from].ticks, points.back().ticks))
      return std::nullopt;
    return kept_by(keeper, points, *rise, growth.at_end(series));
  }

  /// Of the host's groups. `comes_anyhow`: others may allocate more between some of its turns.
  std::optional<Keeper> keeper_of(GroupId group, const HostGrowth::Series& series,
                                  bool comes_anyhow) const {
    constexpr uint64_t kLeastShareOfHost = 50, kTail = 8;
    const std::vector<GrowthPoint>& points = series.points;
    const SiteContext& context = replay_.sites().context_of(group);
    if (!with_host_ || points.size() < kLeastPoints || is_device_kind(context.kind) ||
        !counts_into_sum(context.kind) || context.sample_bytes > 0 ||
        replay_.sites().info(group).stack == 0 ||  // of no call
        !has_line_of_its_own(replay_.sites().info(group).stack))
      return std::nullopt;
    const uint64_t share = comes_anyhow ? kLeastShare : kLeastShareOfHost;
    const std::optional<Rise> rise = steady_rise(points, peak_of(true) / share);
    if (!rise) return std::nullopt;
    const GrowthPoint &from = points[rise->from], &to = points[rise->to];
    Keeper keeper;
    keeper.group = group;
    keeper.before = from.least.blocks;
    if (!add_sample(keeper, to.least)) return std::nullopt;
    const uint64_t allocs = replay_.peaks().group(group).alloc_count;
    const uint64_t numbers = to.number - from.number, more = allocs + 1 - to.number;
    uint64_t clock = 0;  // of anybody's allocations, since the rise began
    for (size_t i = rise->from + 1; i <= rise->to; ++i)
      clock += points[i].gap * (points[i].number - points[i - 1].number);
    const uint64_t ended = series.last + std::max<uint64_t>(clock / numbers, 1) * more;
    const uint64_t end = keeper.later_bytes > 0 ? ended : replay_.peaks().growth().allocs();
    if (!comes_anyhow &&
        (is_only_loaded(points, *rise, end > ended ? end - ended : 0, clock / kTail) ||
         !comes_evenly(points, *rise)))
      return std::nullopt;
    const auto [least, most] = std::ranges::minmax(
        std::span(points).subspan(rise->from + 1, rise->to - rise->from), {}, &GrowthPoint::gap);
    keeper.loops = most.gap - least.gap <= least.gap / 50;
    // Later allocations keep as much as those before.
    const auto later = [&](uint64_t first, uint64_t last) {
      return last + (last - first) * more / numbers;
    };
    return kept_by(keeper, points, *rise,
                   {later(from.least.bytes, to.least.bytes),
                    later(from.least.blocks, std::max(from.least.blocks, to.least.blocks))});
  }

  /// If the log has only a sample of such blocks in the end, it says what the same call kept.
  /// False: nothing.
  bool add_sample(Keeper& keeper, const GrowthPoint::Amount& had) const {
    const uint64_t mean = replay_.heap().sample_bytes();
    if (replay_.sites().context_of(keeper.group).kind != GPUPEAK_KIND_HEAP || mean == 0 ||
        had.bytes >= had.blocks * std::max(mean, kLeastWhole))
      return true;
    SamplingError error;
    for (GroupId id{0}; id < replay_.sites().group_count(); ++id) {
      const uint64_t of = replay_.sites().context_of(id).sample_bytes;
      if (of == 0 || replay_.sites().info(id).stack != replay_.sites().info(keeper.group).stack)
        continue;
      const uint64_t most = replay_.peaks().group(id).max_live_bytes;
      keeper.later_bytes += most;
      error.add(of, most / of);
    }
    keeper.error_bytes = error.bytes().value_or(0);
    return keeper.later_bytes > keeper.error_bytes;
  }

  /// What points show that are near a straight line.
  std::optional<Rise> steady_rise(const std::vector<GrowthPoint>& points, uint64_t least) const {
    std::optional<Rise> rise =
        rise_of(list_of(points, &GrowthPoint::number),
                list_of(points, [](const GrowthPoint& point) { return point.least.bytes; }));
    if (rise && (rise->bytes < std::max(least, kLeastBytes) || !is_even(points, *rise)))
      rise.reset();
    return rise;
  }

  /// Whether points lie near the straight line from the first to the last.
  static bool are_in_line(const std::vector<std::pair<double, double>>& points) {
    constexpr double kMostOff = 0.1;
    const double x = points.front().first, y = points.front().second;
    const double whole = points.back().second - y, pace = whole / (points.back().first - x);
    return std::ranges::all_of(points, [&](const auto& point) {
      return std::abs(point.second - y - pace * (point.first - x)) <=
             std::max(whole * kMostOff, pace * 1.5);
    });
  }

  /// Whether others allocated about as much between each two points.
  static bool comes_evenly(const std::vector<GrowthPoint>& points, const Rise& rise) {
    std::vector<std::pair<double, double>> turns{{points[rise.from].number, 0}};
    for (size_t i = rise.from + 1; i <= rise.to; ++i) {
      const uint64_t others = points[i].gap * (points[i].number - points[i - 1].number);
      turns.emplace_back(points[i].number, turns.back().second + static_cast<double>(others));
    }
    return are_in_line(turns);
  }

  /// Threads that do the same, each with its group.
  using Threads = std::vector<std::pair<GroupId, const HostGrowth::Series*>>;
  /// Whether they took their turns evenly, all together, until the end, while anybody freed
  /// something. Each may have run by fits.
  bool come_evenly_together(const Threads& threads) const {
    constexpr uint64_t kTail = 8;
    if (threads.size() < 2) return false;
    std::map<uint64_t, uint64_t> turns;  // by what anybody had allocated by then
    uint64_t least_freed = UINT64_MAX, most_freed = 0;
    for (const auto& [group, series] : threads) {
      const std::vector<GrowthPoint>& points = series->points;
      uint64_t clock = series->last;
      for (size_t i = points.size(); i-- > 1;) {
        const uint64_t more = points[i].number - points[i - 1].number;
        turns[clock] += more;
        clock -= points[i].gap * more;
      }
      least_freed = std::min(least_freed, points.front().freed);
      most_freed = std::max(most_freed, points.back().freed);
    }
    if (turns.size() < 2 * kLeastPoints || most_freed <= least_freed) return false;
    const uint64_t begin = turns.begin()->first, end = turns.rbegin()->first;
    if (replay_.peaks().growth().allocs() > end + (end - begin) / kTail) return false;
    std::vector<std::pair<double, double>> line{{begin, 0}};
    for (const auto& [clock, count] : turns)
      line.emplace_back(clock, line.back().second + static_cast<double>(count));
    return are_in_line(line);
  }

  /// `last`: what it had in the end.
  static std::optional<Keeper> kept_by(Keeper keeper, const std::vector<GrowthPoint>& points,
                                       const Rise& rise, const GrowthPoint::Amount& last) {
    if (last.bytes < points.back().least.bytes) return std::nullopt;
    const SteadyGrowth::Point &first = points[rise.from], &then = points[rise.to];
    if (then.least.blocks <= first.least.blocks) return std::nullopt;
    keeper.rise = rise;
    keeper.kept = last.blocks - std::min(last.blocks, first.least.blocks);
    if (keeper.kept < kLeastKept) return std::nullopt;
    keeper.block_bytes = rise.same ? static_cast<double>(rise.bytes) /
                                         static_cast<double>(then.least.blocks - first.least.blocks)
                                   : static_cast<double>(last.bytes - first.least.bytes) /
                                         static_cast<double>(keeper.kept);
    keeper.freed = then.freed - first.freed;
    keeper.begin = first.ticks;
    keeper.end = then.ticks;
    return keeper;
  }

  int32_t device_of(const ArenaTable::Holder& held) const {
    return held.what == ArenaTable::What::kOutside ? held.device
                                                   : replay_.arenas().arenas()[held.arena].place;
  }

  /// A step is a turn of the keeper, unless no other call came as often: then one of the calls
  /// whose turns are a multiple or a fraction of the keeper's, of which most come as often.
  /// Of the host, 0 if there is no such call, and what comes between two turns differs.
  uint64_t steps_of(const Keeper& keeper) const {
    constexpr double kMostTimes = 12;  // any count lies near a multiple of more
    // Of the host's many calls some come about as often by chance. They count from the start.
    const bool of_host = keeper.device < 0;
    const auto kept = static_cast<double>(keeper.kept + keeper.before);
    const auto near = [&](double a, double b) {
      const double off = of_host ? std::max(b / 50, 1.5 * std::max(b / kept, 1.0)) : b / kMostTimes;
      return std::abs(a - b) <= off;
    };
    std::map<uint64_t, size_t> calls;  // by how often they came
    for (const uint64_t count : of_host ? calls_on_host(keeper) : calls_on(keeper)) {
      const auto turns = static_cast<double>(count);
      if (near(turns, kept)) return keeper.kept;
      const double times = std::round(std::max(turns / kept, kept / turns));
      if (times > kMostTimes) continue;
      for (const bool more : {true, false}) {
        const auto scaled = [&](double of) { return more ? of * times : of / times; };
        if (near(turns, scaled(kept)))
          ++calls[static_cast<uint64_t>(scaled(static_cast<double>(keeper.kept)))];
      }
    }
    const auto most =
        std::ranges::max_element(calls, {}, [](const auto& call) { return call.second; });
    return most != calls.end() ? most->first : of_host && !keeper.loops ? 0 : keeper.kept;
  }

  /// How often others took memory of the keeper's device since it keeps some.
  std::vector<uint64_t> calls_on(const Keeper& keeper) const {
    const SteadyGrowth& growth = replay_.arenas().growth();
    const bool in_pool =
        replay_.arenas().holders()[keeper.group].what != ArenaTable::What::kOutside;
    std::vector<uint64_t> calls;
    for (size_t i = 0; i < growth.series().size(); ++i) {
      const SteadyGrowth::Series& other = growth.series()[i];
      const HolderId id{static_cast<uint32_t>(i)};
      const ArenaTable::Holder& holder = replay_.arenas().holder(id);
      // A pool takes segments of the driver as it grows, which tells nothing of steps.
      const bool is_segment = holder.what == ArenaTable::What::kOutside && in_pool;
      if (as_group(id) == keeper.group || other.points.empty() || is_segment ||
          device_of(holder) != keeper.device ||
          growth.since_last(other) > 2 * other.points.back().gap)
        continue;
      const auto since = std::ranges::find_if(
          other.points, [&](const auto& point) { return point.ticks >= keeper.begin; });
      if (since == other.points.end()) continue;
      const uint64_t count = other.allocs - since->number + 1;
      if (count >= kLeastAllocs) calls.push_back(count);
    }
    return calls;
  }
  /// The same of the host, of calls that keep nothing and take much, since hundreds do something
  /// before the steps begin. In a loop a call that comes as often is one of each step.
  std::vector<uint64_t> calls_on_host(const Keeper& keeper) const {
    const uint64_t turns = keeper.kept + keeper.before;
    const double much = keeper.bytes() / 4;
    std::vector<uint64_t> calls;
    for (GroupId id{0}; id < replay_.sites().group_count(); ++id) {
      const GroupAccounts::Group& other = replay_.peaks().group(id);
      const SiteContext& context = replay_.sites().context_of(id);
      if (id == keeper.group || is_device_kind(context.kind) || context.sample_bytes > 0 ||
          other.alloc_count < kLeastAllocs)
        continue;
      const bool is_one = other.alloc_count + 1 >= turns && other.alloc_count <= turns + 1;
      if ((keeper.loops && is_one) || (static_cast<double>(other.alloc_bytes) >= much &&
                                       other.max_live_bytes < other.alloc_bytes / 4))
        calls.push_back(other.alloc_count);
    }
    return calls;
  }

  /// Whether the amounts lie near a straight line: steps take as much each time, tensors of a
  /// model that is loaded seldom do.
  static bool is_even(const std::vector<SteadyGrowth::Point>& points, const Rise& rise) {
    if (points[rise.from].least.bytes > rise.bytes / 4) return false;  // the largest came first
    std::vector<std::pair<double, double>> amounts;
    for (size_t i = rise.from; i <= rise.to; ++i)
      amounts.emplace_back(points[i].number, points[i].least.bytes);
    return are_in_line(amounts);
  }

  /// What is only loaded ends well before the run does, or nothing is freed meanwhile.
  static bool is_only_loaded(const std::vector<SteadyGrowth::Point>& points, const Rise& rise,
                             uint64_t since_last, uint64_t may_wait) {
    uint64_t gap = 0, first_gap = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      uint64_t& of = i < points.size() / 2 ? first_gap : gap;
      of = std::max(of, points[i].gap);
    }
    // A cache that is nearly full misses more and more seldom.
    if (since_last > std::max(2 * gap, may_wait) || gap > 2 * first_gap) return true;
    // Collectors of garbage on the host free seldom.
    const size_t steps = rise.to - rise.from, parts = may_wait > 0 ? 1 : 4;
    for (size_t i = 0; i < parts; ++i) {
      if (points[rise.from + steps * i / parts].freed ==
          points[rise.from + steps * (i + 1) / parts].freed)
        return true;
    }
    return false;
  }

  /// Whether the program computed on without another allocation: then it had loaded.
  bool is_used_long_after(int32_t device, uint64_t began, uint64_t ended) const {
    const ScopeId* scope = replay_.sites().find_scope("device:" + std::to_string(device));
    if (scope == nullptr) return false;
    uint64_t last = 0;
    replay_.device().roles().visit_at_peak(
        device, replay_.peaks().scope(*scope).peak_ticks,
        [&](const BlockRoles::Block& block) { last = std::max(last, block.uses.last); });
    return last > ended + (ended - began) / 4;
  }

  /// A model whose layers keep what they made in its only forward pass looks like steps that keep
  /// something. Where memory ran out in it nothing is said, unless far more was freed than kept.
  bool ran_out_in_pass(const std::vector<Keeper>& keepers, uint64_t steps) const {
    constexpr uint64_t kMoreThanLayers = 100, kFreedForEachKept = 4;
    return last_failure_ticks() >= most_of(keepers, &Keeper::end) && steps < kMoreThanLayers &&
           most_of(keepers, &Keeper::freed) < kFreedForEachKept * sum_of(keepers, &Keeper::kept);
  }

  /// A program that reads something keeps a little of each piece, and a piece takes no time.
  bool only_reads(const std::vector<Keeper>& keepers, double turns) const {
    constexpr double kLeastOfTurn = 4096, kMoment = 1e9, kPiece = 1e6;  // ns
    double bytes = 0;
    int64_t begin = INT64_MAX, end = 0;
    for (const Keeper& keeper : keepers) {
      bytes += keeper.bytes();
      begin = std::min(begin, replay_.log().clock().to_ns(keeper.begin));
      end = std::max(end, replay_.log().clock().to_ns(keeper.end));
    }
    const auto took = static_cast<double>(end - begin);
    return bytes < kLeastOfTurn * turns && took < std::min(kMoment, kPiece * turns);
  }

  /// A step is a turn of the holder that keeps the fewest blocks, if the largest holder's are a
  /// multiple of them.
  void add_rows(int32_t device, std::vector<Keeper>& keepers) {
    std::ranges::sort(keepers, {}, &Keeper::kept);
    const auto most =
        static_cast<double>(std::ranges::max_element(keepers, {}, &Keeper::bytes)->kept);
    const auto base = std::ranges::find_if(keepers, [&](const Keeper& keeper) {
      const double times = most / static_cast<double>(keeper.kept);
      return std::abs(times - std::round(times)) <= times / 20;
    });
    const bool is_of_several = most > static_cast<double>(base->kept) * 1.5;
    const uint64_t calls = steps_of(*base), steps = is_of_several ? base->kept : calls;
    if (calls == 0 || (device < 0 && only_reads(keepers, most)) ||
        (device >= 0 && ran_out_in_pass(keepers, steps)))
      return;
    const double later = static_cast<double>(base->later_bytes) / base->bytes();
    for (const Keeper& keeper : keepers) {
      const double each = static_cast<double>(keeper.kept) / static_cast<double>(steps);
      const double blocks = std::max(1.0, std::round(each));  // about, if not whole
      const bool whole = std::abs(each - blocks) <= blocks / 20;
      GrowthSummary growth;
      growth.phase = "step";
      growth.source = "blocks";
      growth.side = device < 0 ? "host" : "device";
      if (device >= 0) growth.device = device;
      growth.title = row_of(device < 0 ? kHostSide : kDeviceSide, keeper.group).second;
      // The base has the most to go by: as many more steps came as a sample says that it kept.
      growth.last = steps + static_cast<uint64_t>(static_cast<double>(steps) * later);
      growth.grown_bytes = static_cast<uint64_t>((whole ? blocks : each) * keeper.block_bytes *
                                                 static_cast<double>(growth.last));
      if (later > 0) growth.error_bytes = keeper.error_bytes;
      growth.same_each_time = whole && keeper.rise.same && later == 0;
      growth.begin_ns = replay_.log().clock().to_ns(keeper.begin);
      growth.end_ns = replay_.log().clock().to_ns(keeper.end);
      growth.to_the_last = true;
      growth.blocks_each = static_cast<uint64_t>(blocks);
      const auto [known, added] = best_.try_emplace(Row{device, growth.title}, Found{growth, 0});
      if (added) continue;
      known->second.growth.grown_bytes += growth.grown_bytes;
      known->second.growth.blocks_each += growth.blocks_each;
      known->second.growth.same_each_time &= growth.same_each_time;
    }
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

void add_growth_metrics(Summary& summary, bool with_host) {
  // Steps of several kinds lie within each other: those of the row that grew most are meant.
  const auto of = [&](std::optional<int32_t> device) {
    const GrowthSummary* first = nullptr;
    uint64_t bytes = 0;
    for (const GrowthSummary& growth : summary.growth) {
      if (growth.device != device) continue;
      if (first == nullptr) first = &growth;
      if (growth.phase == first->phase) bytes += growth.bytes_each();
    }
    return bytes;
  };
  std::optional<uint64_t>& on_host = summary.metrics["host.step_growth_bytes"];
  on_host.reset();
  if (with_host) on_host = of(std::nullopt);
  std::optional<uint64_t>& most = summary.metrics["device.step_growth_bytes"];
  most.reset();
  for (DeviceSummary& device : summary.devices) {
    const uint64_t bytes = of(device.ordinal);
    device.metrics["device.step_growth_bytes"] = bytes;
    most = std::max(most, std::optional(bytes));
  }
}

}  // namespace gpupeak::collector
