#include "collector/timeline/pool_history.h"

#include <algorithm>
#include <map>

#include "collector/analyze/pool_summary.h"
#include "collector/timeline/pool_steps.h"
#include "collector/timeline/pool_stock.h"

namespace gpupeak::collector {
namespace {

using Chosen = PoolStock::Chosen;

/// Peaks of pools and the end first, then what else of the run has a name, then the highest moments
/// of each pool in equal parts of the run.
Chosen choose(const PoolHistory& history, const TimeSeries& times, const Instants& instants) {
  Chosen chosen;
  if (times.event_count() > 0) chosen[times.event_count() - 1] = "the end";
  std::vector<const Series*> courses;
  for (const PoolHistory::Pool& pool : history.pools) {
    const Series* series = times.pool_in_use(pool.arena);
    if (series == nullptr) continue;
    courses.push_back(series);
    const uint64_t event = TimeSeries::peak_event(*series);
    if (event == kNoEvent || chosen.size() >= kMaxPoolInstants / 4) continue;
    std::string& reason = chosen[event];
    reason += (reason.empty() ? "peak of " : ", ") + pool.name;
  }
  for (const Instant& instant : instants.instants) {
    if (instant.reason.empty() || chosen.size() >= kMaxPoolInstants * 3 / 4) continue;
    std::string& reason = chosen[instant.event];
    if (reason.empty()) reason = instant.reason;
  }
  if (courses.empty()) return chosen;
  const size_t slices = (kMaxPoolInstants - chosen.size()) / courses.size();
  for (const Series* series : courses) {
    for (const uint64_t event : TimeSeries::highest_events(*series, slices)) {
      chosen.try_emplace(event);
    }
  }
  return chosen;
}

/// Every change and the stock at chosen events, in one replay: whether there are few enough changes
/// is known at its end.
class PoolWatch : public ReplayObserver {
 public:
  PoolWatch(const PoolHistory& history, Chosen chosen, const ClockMap& clock)
      : steps_(history, clock), stock_(history, std::move(chosen), clock) {}
  void on_pool_block(const PoolBlockChange& change) override { steps_.on_block(change); }
  void after(const Event& event) override {
    steps_.after(replay().arenas(), event.ticks);
    stock_.after(replay().arenas(), event.ticks);
  }
  void finish(PoolHistory& history) {
    if (steps_.finish(history)) return;
    stock_.finish(history);
  }

 private:
  PoolSteps steps_;
  PoolStock stock_;
};

}  // namespace

PoolHistory pool_history(Profile& profile, const TimeSeries& times, const Instants& instants,
                         const Progress& progress) {
  PoolHistory history;
  const ArenaTable& table = profile.replay().arenas();
  for (size_t arena = 0; arena < table.arenas().size(); ++arena) {
    const ArenaTable::Arena& info = table.arenas()[arena];
    const PeakFinder::Scope& in_use = table.peaks().scope(info.scope);
    if (info.is_unused() || in_use.peak == 0) continue;
    history.pools.push_back({arena, profile.definitions().shown(profile.replay().name(info.name)),
                             info.place, in_use.peak, table.peaks().scope(info.reserved_scope).peak,
                             profile.to_ns(in_use.peak_ticks), info.largest_block,
                             info.largest_refused});
  }
  if (history.pools.empty()) return history;
  PoolWatch watch(history, choose(history, times, instants), profile.log().clock());
  profile.replay_again(watch, progress);
  watch.finish(history);
  // Blocks have had the number of their group so far. A log that is still being written may have
  // grown since the first replay, by groups that have no name yet.
  std::map<std::string, uint32_t> rows;
  std::map<uint32_t, uint32_t> row_of;
  for (PoolHistory::Block& block : history.blocks) {
    const auto [known, fresh] = row_of.try_emplace(block.row);
    if (fresh) {
      const std::string title =
          block.row < table.holders().size()
              ? pool_holder_title(profile.replay(), profile.sites(), table.holders()[block.row])
              : "written later";
      const auto [row, added] = rows.try_emplace(title, static_cast<uint32_t>(history.rows.size()));
      if (added) history.rows.push_back(title);
      known->second = row->second;
    }
    block.row = known->second;
  }
  return history;
}

}  // namespace gpupeak::collector
