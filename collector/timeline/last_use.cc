#include "collector/timeline/last_use.h"

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <tuple>
#include <unordered_map>

#include "collector/analyze/summary_parts.h"
#include "collector/log/kinds.h"
#include "collector/text/error.h"

namespace gpupeak::collector {
namespace {

/// The life of one block; times in ticks.
struct Life {
  int32_t device = -1;
  GroupId group = kNoGroup;
  HolderId holder = kNoHolder;
  uint64_t bytes = 0;
  BlockUses uses;
  bool is_at_peak = false;
};

/// What a device had at its peak.
struct AtPeak {
  ScopeId scope{};
  uint64_t peak_ticks = 0, bytes = 0;
  bool was_reached = false;
  uint64_t idle_bytes = 0;
  std::vector<Life> lives;  ///< lives that have ended
};

class UseWatch : public ReplayObserver {
 public:
  explicit UseWatch(const Profile& profile) : shared_out_(profile.replay().arenas().shared_out()) {
    for (const ScopeId id : profile.scopes()) {
      const ScopeInfo& info = profile.scope_info(id);
      if (info.device < 0 || info.kind != 0) continue;
      const PeakFinder::Scope& sum = profile.sum(id);
      if (sum.peak > 0) peaks_[info.device] = {id, sum.peak_ticks, sum.peak, false, 0, {}};
    }
  }

  void on_block_alloc(const DeviceBlock& block) override {
    const SiteContext& context = replay().sites().context_of(block.group);
    if (context.device < 0 || !counts_into_sum(context.kind) ||
        shared_out_.contains(block.alloc.id))
      return;
    Life life;
    life.device = context.device;
    life.group = block.group;
    life.bytes = block.alloc.bytes;
    begin(blocks_[block.alloc.id], life);
  }
  void on_block_free(const DeviceBlock& block) override { end(blocks_, block.alloc.id); }

  void on_arena_block(const ArenaBlockChange& change) override {
    const ArenaTable::Holder& holder = replay().arenas().holder(change.holder);
    const int32_t device = replay().arenas().arenas()[holder.arena].place;
    const Address at{change.arena, change.address};
    if (!change.in_use) return end(in_arenas_, at);
    if (device < 0 || change.alone || !holder.counted) return;
    Life life;
    life.device = device;
    life.holder = change.holder;
    life.bytes = change.bytes;
    begin(in_arenas_[at], life);
  }
  void on_used(const UsedEvent& used, uint64_t ticks) override {
    if (used.arena == 0) return note(blocks_, used.block, used, ticks);
    note(in_arenas_, Address{used.arena, used.block}, used, ticks);
  }
  void after(const Event& event) override {
    for (auto& [device, peak] : peaks_) {
      if (!peak.was_reached && event.ticks == peak.peak_ticks &&
          replay().current(peak.scope) == peak.bytes)
        take_peak(device, peak);
    }
  }

  void finish() {
    for (auto& [id, life] : blocks_) keep(life);
    for (auto& [at, life] : in_arenas_) keep(life);
  }
  const std::map<int32_t, AtPeak>& peaks() const { return peaks_; }

 private:
  using Address = std::pair<uint64_t, uint64_t>;  ///< the log's number of an arena; an address

  /// Begins a life. If it is there already, the block's free failed and it lives on.
  static void begin(Life& place, const Life& life) {
    if (place.bytes == 0) place = life;
  }
  template <typename Lives, typename Key>
  static void note(Lives& lives, const Key& key, const UsedEvent& used, uint64_t ticks) {
    if (const auto life = lives.find(key); life != lives.end()) life->second.uses.add(used, ticks);
  }
  template <typename Lives, typename Key>
  void end(Lives& lives, const Key& key) {
    const auto life = lives.find(key);
    if (life == lives.end()) return;
    keep(life->second);
    lives.erase(life);
  }
  void keep(const Life& life) {
    if (life.is_at_peak) peaks_.at(life.device).lives.push_back(life);
  }
  void take_peak(int32_t device, AtPeak& peak) {
    peak.was_reached = true;
    uint64_t held = 0;
    const auto take = [&](Life& life) {
      if (life.device != device) return;
      life.is_at_peak = true;
      held += life.bytes;
    };
    for (auto& [id, life] : blocks_) take(life);
    for (auto& [at, life] : in_arenas_) take(life);
    if (held > peak.bytes) throw std::logic_error("last use: blocks are more than the peak");
    peak.idle_bytes = peak.bytes - held;
  }

  const std::unordered_set<uint64_t>& shared_out_;
  std::map<int32_t, AtPeak> peaks_;
  std::unordered_map<uint64_t, Life> blocks_;
  std::map<Address, Life> in_arenas_;
};

Holder holder_of(Profile& profile, const LastUse::Row& row) {
  if (row.group != kNoGroup)
    return profile.sites().holder({row.group, row.bytes, row.blocks}, false);
  Peak peak;
  const ArenaTable::Holder& holder = profile.replay().arenas().holder(row.holder);
  add_arena_rows(profile.replay(), profile.sites(), {{&holder, row.bytes, row.blocks}}, 1, peak);
  return peak.holders.front();
}

}  // namespace

LastUses last_uses(const Profile& profile, const Progress& progress) {
  if (!has_uses(profile.definitions()))
    throw UsageError(
        "the log does not say when memory was used: record it with "
        "`gpupeak run --last-use`");
  UseWatch watch(profile);
  profile.replay_again(watch, progress);
  watch.finish();
  LastUses result;
  result.end = profile.replay().uses_end();
  for (const auto& [device, peak] : watch.peaks()) {
    if (!peak.was_reached) continue;
    LastUse of;
    of.scope = peak.scope;
    of.bytes = peak.bytes;
    of.time_ns = profile.to_ns(peak.peak_ticks);
    of.idle_bytes = peak.idle_bytes;
    std::map<std::tuple<UseAtPeak, GroupId, HolderId>, LastUse::Row> rows;
    for (const Life& life : peak.lives) {
      const UseStanding standing = life.uses.at(peak.peak_ticks);
      const int64_t for_ns = profile.to_ns(peak.peak_ticks + standing.ticks) - of.time_ns;
      LastUse::Row& row = rows[{standing.use, life.group, life.holder}];
      row.shortest_ns = row.blocks == 0 ? for_ns : std::min(row.shortest_ns, for_ns);
      row.longest_ns = std::max(row.longest_ns, for_ns);
      row.use = standing.use;
      row.group = life.group;
      row.holder = life.holder;
      row.bytes += life.bytes;
      ++row.blocks;
    }
    for (auto& [key, row] : rows) of.rows.push_back(row);
    result.devices.push_back(std::move(of));
  }
  return result;
}

std::vector<UseRow> use_rows(Profile& profile, const LastUse& of) {
  std::map<std::tuple<UseAtPeak, std::string, std::string>, UseRow> by_title;
  for (const LastUse::Row& part : of.rows) {
    const Holder holder = holder_of(profile, part);
    const auto [entry, is_new] = by_title.try_emplace({part.use, holder.title, holder.kind});
    UseRow& row = entry->second;
    row.use = part.use;
    row.title = holder.title;
    row.kind = holder.kind;
    row.bytes += part.bytes;
    row.blocks += part.blocks;
    row.shortest_ns = is_new ? part.shortest_ns : std::min(row.shortest_ns, part.shortest_ns);
    row.longest_ns = std::max(row.longest_ns, part.longest_ns);
  }
  std::vector<UseRow> rows;
  rows.reserve(by_title.size());
  for (auto& [key, row] : by_title) rows.push_back(std::move(row));
  std::ranges::stable_sort(rows, std::ranges::greater(), &UseRow::bytes);
  return rows;
}

uint64_t bytes_of(const LastUse& of, UseAtPeak use) {
  uint64_t bytes = 0;
  for (const LastUse::Row& row : of.rows) bytes += row.use == use ? row.bytes : 0;
  return bytes;
}

}  // namespace gpupeak::collector
