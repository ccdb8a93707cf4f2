#include "collector/timeline/arena_history.h"

#include <algorithm>
#include <map>

#include "collector/analyze/arena_summary.h"
#include "collector/timeline/arena_steps.h"

namespace gpupeak::collector {
namespace {

using Chosen = ArenaStock::Chosen;

/// Chooses instants until there are enough, in this order: peaks of arenas and the end; other
/// instants that have a name; the highest moment of each arena in each of equal parts of the run.
Chosen choose(const ArenaHistory& history, const TimeSeries& times, const Instants& instants) {
  Chosen chosen;
  if (times.event_count() > 0) chosen[times.event_count() - 1] = "the end";
  std::vector<const Series*> courses;
  for (const ArenaHistory::Arena& arena : history.arenas) {
    const Series* series = times.arena_in_use(arena.arena);
    if (series == nullptr) continue;
    courses.push_back(series);
    const uint64_t event = TimeSeries::peak_event(*series);
    if (event == kNoEvent || chosen.size() >= kMaxArenaInstants / 4) continue;
    std::string& reason = chosen[event];
    reason += (reason.empty() ? "peak of " : ", ") + arena.name;
  }
  for (const Instant& instant : instants.instants) {
    if (instant.reason.empty() || chosen.size() >= kMaxArenaInstants * 3 / 4) continue;
    std::string& reason = chosen[instant.event];
    if (reason.empty()) reason = instant.reason;
  }
  if (courses.empty()) return chosen;
  const size_t slices = (kMaxArenaInstants - chosen.size()) / courses.size();
  for (const Series* series : courses) {
    for (const uint64_t event : TimeSeries::highest_events(*series, slices)) {
      chosen.try_emplace(event);
    }
  }
  return chosen;
}

/// Notes every change, and takes stock at chosen events, in one replay: only at its end is it known
/// whether there are few enough changes.
class ArenaWatch : public ReplayObserver {
 public:
  ArenaWatch(const ArenaHistory& history, Chosen chosen, const ClockMap& clock, bool has_uses)
      : uses_(has_uses),
        steps_(history, clock, uses_),
        stock_(history, std::move(chosen), clock, uses_) {}
  void on_arena_block(const ArenaBlockChange& change) override {
    uses_.on_block(change, replay().arenas().holder(change.holder).arena);
    steps_.on_block(change);
  }
  void on_used(const UsedEvent& used, uint64_t ticks) override { uses_.on_used(used, ticks); }
  void after(const Event& event) override {
    steps_.after(replay().arenas(), event.ticks);
    stock_.after(replay().arenas(), event.ticks);
  }
  void finish(ArenaHistory& history) {
    if (steps_.finish(history)) return;
    stock_.finish(history);
  }
  const ArenaUses& uses() const { return uses_; }

 private:
  ArenaUses uses_;
  ArenaSteps steps_;
  ArenaStock stock_;
};

void add_uses(const ArenaUses& uses, const Profile& profile, ArenaHistory& history) {
  if (!uses.on()) return;
  for (const ArenaHistory::Block& block : history.blocks) {
    const BlockUses of = uses.of(block.number);
    ArenaHistory::Uses& in_ns = history.uses.emplace_back();
    in_ns.is_known = of.is_known;
    in_ns.count = of.count;
    if (of.count == 0) continue;
    in_ns.first_ns = profile.to_ns(of.first);
    in_ns.last_ns = profile.to_ns(of.last);
    in_ns.idle_since_ns = of.idle > 0 ? profile.to_ns(of.idle_since) : in_ns.first_ns;
    in_ns.idle_ns = of.idle > 0 ? profile.to_ns(of.idle_since + of.idle) - in_ns.idle_since_ns : 0;
  }
}

}  // namespace

ArenaHistory arena_history(Profile& profile, const TimeSeries& times, const Instants& instants,
                           const Progress& progress) {
  ArenaHistory history;
  const ArenaTable& table = profile.replay().arenas();
  for (size_t arena = 0; arena < table.arenas().size(); ++arena) {
    const ArenaTable::Arena& info = table.arenas()[arena];
    const PeakFinder::Scope& in_use = table.peaks().scope(info.scope);
    if (info.is_unused() || in_use.peak == 0) continue;
    history.arenas.push_back({arena, profile.definitions().shown(profile.replay().name(info.name)),
                              info.place, in_use.peak,
                              table.peaks().scope(info.reserved_scope).peak,
                              profile.to_ns(in_use.peak_ticks), info.largest_block,
                              info.largest_refused, info.has_older});
  }
  if (history.arenas.empty()) return history;
  ArenaWatch watch(history, choose(history, times, instants), profile.log().clock(),
                   has_uses(profile.definitions()));
  profile.replay_again(watch, progress);
  watch.finish(history);
  add_uses(watch.uses(), profile, history);
  // Until here a block's row is its holder's number. If the log is still being written, it may have
  // got holders since the first replay, which have no name yet.
  std::map<std::string, uint32_t> rows;
  std::map<uint32_t, uint32_t> row_of;
  for (ArenaHistory::Block& block : history.blocks) {
    const auto [known, fresh] = row_of.try_emplace(block.row);
    if (fresh) {
      const std::string title =
          block.row < table.holders().size()
              ? arena_holder_title(profile.replay(), profile.sites(), table.holders()[block.row])
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
