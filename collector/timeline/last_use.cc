#include "collector/timeline/last_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <stdexcept>
#include <tuple>

#include "collector/analyze/summary_parts.h"
#include "collector/log/kinds.h"
#include "collector/text/error.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kLeastFreed = 10, kTimesOlder = 4;

/// The life of one block; times in ticks.
struct Life {
  int32_t device = -1;
  GroupId group = kNoGroup;
  HolderId holder = kNoHolder;
  uint64_t bytes = 0, born = 0;
  BlockUses uses = {};
  bool is_at_peak = false;
  uint64_t freed = 0, longest = 0;  ///< of the same call's blocks, before the peak
};

/// What a device or the host had at its peak, or after so many events.
struct AtPeak {
  ScopeId scope{};
  uint64_t peak_ticks = 0, bytes = 0, events = 0;
  bool was_reached = false;
  uint64_t idle_bytes = 0, held_bytes = 0;
  std::vector<Life> lives;  ///< lives that have ended
};

class LifeWatch : public ReplayObserver {
 public:
  explicit LifeWatch(const Profile& profile)
      : profile_(profile), shared_out_(profile.replay().arenas().shared_out()) {}
  /// The sum of a device or of the host; `events` as in Held.
  void look_at(ScopeId id, uint64_t events) {
    const PeakFinder::Scope& sum = profile_.sum(id);
    peaks_[profile_.scope_info(id).device] = {id, sum.peak_ticks, sum.peak, events, false, 0, 0,
                                              {}};
  }
  /// The phase whose instances are steps.
  void count(std::string step) { step_ = std::move(step); }
  /// When each of them began.
  const std::vector<uint64_t>& steps() const { return steps_; }

  void on_phase_begin(PhaseTrack /*track*/, uint64_t /*number*/, const PhaseLabel& label,
                      uint64_t ticks) override {
    if (!step_.empty() && phase_text(replay(), label) == step_) steps_.push_back(ticks);
  }
  void on_step(std::span<const PeakFinder::Change> step) override {
    if (!peaks_.contains(-1)) return;
    for (const PeakFinder::Change& change : step) {
      if (change.number == kNoBlock) continue;
      if (change.count < 0) {
        end(heap_, change.number);
        continue;
      }
      Life life{-1, change.group, kNoHolder, static_cast<uint64_t>(change.bytes)};
      begin(heap_[change.number], life);
    }
  }

  void on_block_alloc(const DeviceBlock& block) override {
    const SiteContext& context = replay().sites().context_of(block.group);
    const bool of_host = !is_device_kind(context.kind);
    if ((context.device < 0 && !of_host) || !counts_into_sum(context.kind) ||
        (!of_host && shared_out_.contains(block.alloc.id)))
      return;
    Life life{of_host ? -1 : context.device, block.group, kNoHolder, block.alloc.bytes};
    begin(blocks_[block.alloc.id], life);
  }
  void on_block_free(const DeviceBlock& block) override { end(blocks_, block.alloc.id); }

  void on_arena_block(const ArenaBlockChange& change) override {
    const ArenaTable::Holder& holder = replay().arenas().holder(change.holder);
    const int32_t device = replay().arenas().arenas()[holder.arena].place;
    const Address at{change.arena, change.address};
    if (!change.in_use) return end(in_arenas_, at);
    if (device < 0 || change.alone || !holder.counted) return;
    Life life{device, kNoGroup, change.holder, change.bytes};
    begin(in_arenas_[at], life);
  }
  void on_used(const UsedEvent& used, uint64_t ticks) override {
    if (used.arena == 0) return note(blocks_, used.block, used, ticks);
    note(in_arenas_, Address{used.arena, used.block}, used, ticks);
  }
  void after(const Event& event) override {
    ++events_;
    for (auto& [device, peak] : peaks_) {
      if (peak.was_reached) continue;
      if (peak.events > 0
              ? events_ == peak.events
              : event.ticks == peak.peak_ticks && replay().current(peak.scope) == peak.bytes)
        take_peak(device, peak, event.ticks, replay());
    }
  }

  void finish() {
    for (auto& [device, peak] : peaks_) {
      if (peak.events == NamedMoment::kEnd)
        take_peak(device, peak, profile_.replay().last_ticks(), profile_.replay());
    }
    for (auto& [id, life] : heap_) keep(life);
    for (auto& [id, life] : blocks_) keep(life);
    for (auto& [at, life] : in_arenas_) keep(life);
  }
  const std::map<int32_t, AtPeak>& peaks() const { return peaks_; }

 private:
  using Address = std::pair<uint64_t, uint64_t>;  ///< the log's number of an arena; an address

  /// Begins a life. If it is there already, the block's free failed and it lives on.
  void begin(Life& place, Life& life) {
    life.born = replay().last_ticks();
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
    auto& [freed, longest] = ended_[{life->second.group, life->second.holder}];
    ++freed;
    longest = std::max(longest, replay().last_ticks() - life->second.born);
    lives.erase(life);
  }
  void keep(const Life& life) {
    if (life.is_at_peak) peaks_.at(life.device).lives.push_back(life);
  }
  void take_peak(int32_t device, AtPeak& peak, uint64_t ticks, const Replay& then) {
    peak.was_reached = true;
    peak.peak_ticks = ticks;
    peak.bytes = then.current(peak.scope);
    uint64_t held = 0;
    const auto take = [&](Life& life) {
      if (life.device != device) return;
      life.is_at_peak = true;
      held += life.bytes;
      std::tie(life.freed, life.longest) = ended_[{life.group, life.holder}];
    };
    for (auto& [number, life] : heap_) take(life);
    for (auto& [id, life] : blocks_) take(life);
    for (auto& [at, life] : in_arenas_) take(life);
    peak.held_bytes = held;
    peak.idle_bytes = peak.bytes - std::min(held, peak.bytes);
  }

  const Profile& profile_;
  const std::unordered_set<uint64_t>& shared_out_;
  std::map<int32_t, AtPeak> peaks_;  // -1: the host's
  uint64_t events_ = 0;
  std::string step_;
  std::vector<uint64_t> steps_;
  std::map<std::pair<GroupId, HolderId>, std::pair<uint64_t, uint64_t>> ended_;
  std::unordered_map<uint32_t, Life> heap_;
  std::unordered_map<uint64_t, Life> blocks_;
  std::map<Address, Life> in_arenas_;
};

/// `row`: a Life or a LastUse::Row.
Holder holder_of(Profile& profile, const auto& row, uint64_t blocks) {
  if (row.group != kNoGroup) return profile.sites().holder({row.group, row.bytes, blocks}, false);
  Peak peak;
  const ArenaTable::Holder& holder = profile.replay().arenas().holder(row.holder);
  add_arena_rows(profile.replay(), profile.sites(), {{&holder, row.bytes, blocks}}, 1, peak);
  return peak.holders.front();
}

/// What grows of the sum, the largest first.
std::optional<GrowthSummary> growth_of(Profile& profile, const ScopeInfo& info) {
  const bool with_host = knows_host_growth(profile.replay(), profile.coverage());
  for (GrowthSummary& growth : summarize_growth(profile.replay(), profile.sites(), with_host)) {
    if (growth.device.value_or(-1) == info.device) return std::move(growth);
  }
  return std::nullopt;
}

/// The phase that comes again and was open longest; empty: there is none.
std::string step_phase(const Replay& replay) {
  constexpr uint64_t kLeastSteps = 5;
  const Phase* step = nullptr;
  for (const Phase& phase : replay.phases().phases()) {
    if (phase.count >= kLeastSteps && phase.source != kPhaseNode &&
        (step == nullptr || phase.open_ticks > step->open_ticks))
      step = &phase;
  }
  return step != nullptr ? phase_text(replay, *step) : "";
}

/// A class of ages: its place among them, and what it is called.
using AgeClass = std::pair<size_t, std::string>;

AgeClass class_of(uint64_t born, int64_t age_ns, const std::vector<uint64_t>& steps) {
  if (steps.empty()) {
    size_t place = 0;
    int64_t most = 1'000'000;
    for (; age_ns >= most && most <= INT64_MAX / 10; most *= 10) ++place;
    if (place == 0) return {0, "less than 1 ms ago"};
    return {place, fmt::format("{} to {} ago", duration(most / 10), duration(most))};
  }
  if (born < steps.front()) return {64, "before the first step"};
  const auto ago = static_cast<uint64_t>(steps.end() - std::ranges::upper_bound(steps, born));
  if (ago < 2) return {ago, ago == 0 ? "in this step" : "1 step ago"};
  const uint64_t least = std::bit_floor(ago);
  return {std::bit_width(ago), fmt::format("{} to {} steps ago", least, 2 * least - 1)};
}

/// Of what was live at the moment.
Ages ages_at(Profile& profile, const AtPeak& at, std::string step, std::vector<uint64_t> steps,
             const std::optional<GrowthSummary>& growth) {
  std::map<std::pair<GroupId, HolderId>, std::vector<const Life*>> calls;
  for (const Life& life : at.lives) calls[{life.group, life.holder}].push_back(&life);
  const auto title = [&](const Life* life) { return holder_of(profile, *life, 1).title; };
  if (const uint64_t each = growth ? growth->blocks_each : 0; each > 0) {
    step = growth->phase;
    std::vector<uint64_t> born;
    for (const auto& [call, lives] : calls) {
      if (lives.size() <= each || title(lives.front()) != growth->title) continue;
      for (const Life* life : lives) born.push_back(life->born);
    }
    std::ranges::sort(born);
    steps.clear();
    for (size_t i = 0; i < born.size(); i += each) steps.push_back(born[i]);
  }
  std::erase_if(steps, [&](uint64_t ticks) { return ticks > at.peak_ticks; });
  const auto ns_since = [&](uint64_t ticks) {
    return profile.to_ns(at.peak_ticks) - profile.to_ns(ticks);
  };
  std::map<size_t, Ages::Row> rows;
  std::map<size_t, const Life*> largest;  // by class: of the call that has most of it
  Ages ages{at.scope, steps.empty() ? "" : step, {}, at.idle_bytes, {}};
  for (const auto& [call, lives] : calls) {
    std::map<size_t, uint64_t> held;
    Ages::Odd odd;
    for (const Life* life : lives) {
      const int64_t age = ns_since(life->born);
      const auto [place, text] = class_of(life->born, age, steps);
      Ages::Row& row = rows[place];
      row.text = text;
      row.bytes += life->bytes;
      ++row.blocks;
      row.oldest_ns = std::max(row.oldest_ns, age);
      if ((held[place] += life->bytes) > row.site_bytes) {
        row.site_bytes = held[place];
        largest[place] = life;
      }
      if (life->freed < kLeastFreed || (at.peak_ticks - life->born) / kTimesOlder <= life->longest)
        continue;
      odd = {"",
             odd.bytes + life->bytes,
             odd.blocks + 1,
             std::max(odd.oldest_ns, age),
             life->freed,
             ns_since(at.peak_ticks - life->longest)};
    }
    if (odd.bytes < std::max<uint64_t>(at.bytes / 100, 1)) continue;
    odd.site = title(lives.front());
    ages.odd.push_back(std::move(odd));
  }
  for (auto& [place, row] : rows) {
    if (row.site_bytes > 0) row.site = title(largest[place]);
    ages.rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(ages.odd, std::ranges::greater(), &Ages::Odd::bytes);
  return ages;
}

}  // namespace

std::vector<Ages> ages_of(Profile& profile, const std::vector<Held>& held,
                          const Progress& progress) {
  LifeWatch watch(profile);
  std::vector<std::optional<GrowthSummary>> growths;
  std::string step = step_phase(profile.replay());
  for (const Held& one : held) {
    if (one.bytes > 0) watch.look_at(one.scope, one.events);
    growths.push_back(growth_of(profile, profile.scope_info(one.scope)));
    if (growths.back() && growths.back()->blocks_each == 0) step = growths.back()->phase;
  }
  watch.count(step);
  profile.replay_again(watch, progress);
  watch.finish();
  std::vector<Ages> all;
  for (size_t i = 0; i < held.size(); ++i) {
    const auto at = watch.peaks().find(profile.scope_info(held[i].scope).device);
    // In damaged logs blocks may lie outside of their arena's memory.
    const bool is_known = held[i].bytes > 0 && at->second.held_bytes <= at->second.bytes;
    all.push_back(is_known ? ages_at(profile, at->second, step, watch.steps(), growths[i])
                           : Ages{held[i].scope, "", {}, held[i].bytes, {}});
  }
  return all;
}

LastUses last_uses(const Profile& profile, const Progress& progress) {
  if (!has_uses(profile.definitions()))
    throw UsageError(
        "the log does not say when memory was used: record it with `gpupeak run --last-use`");
  LifeWatch watch(profile);
  for (const ScopeId id : profile.scopes()) {
    const ScopeInfo& info = profile.scope_info(id);
    if (info.device >= 0 && info.kind == 0 && profile.sum(id).peak > 0) watch.look_at(id, 0);
  }
  profile.replay_again(watch, progress);
  watch.finish();
  LastUses result;
  result.end = profile.replay().uses_end();
  for (const auto& [device, peak] : watch.peaks()) {
    if (!peak.was_reached) continue;
    if (peak.held_bytes > peak.bytes)
      throw std::logic_error("last use: blocks are more than the peak");
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
    const Holder holder = holder_of(profile, part, part.blocks);
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
  std::vector<UseRow> rows = values_of(std::move(by_title));
  std::ranges::stable_sort(rows, std::ranges::greater(), &UseRow::bytes);
  return rows;
}

uint64_t bytes_of(const LastUse& of, UseAtPeak use) {
  return sum_of(of.rows, [&](const LastUse::Row& row) { return row.use == use ? row.bytes : 0; });
}

const UseName& use_name(UseAtPeak use) {
  return *std::ranges::find_if(kUses, [&](const UseName& of) { return of.use == use; });
}

std::string when_used(UseAtPeak use, int64_t shortest_ns, int64_t longest_ns) {
  constexpr std::string_view kHowLong = "{}";
  std::string text(use_name(use).when);
  const size_t at = text.find(kHowLong);
  if (at == std::string::npos) return text;
  const std::string shortest = duration(shortest_ns), longest = duration(longest_ns);
  return text.replace(at, kHowLong.size(),
                      shortest == longest ? shortest : shortest + " to " + longest);
}

std::vector<std::string> use_notes(const LastUses& uses) {
  std::vector<std::string> notes{
      "A use is an address of the block in the arguments of a launch, a copy or a fill, when that "
      "was given to the device. What a kernel reads from memory, such as lists of pointers, is not "
      "seen."};
  if (!uses.end) {
    notes.emplace_back(
        "The process did not come to its end: of what was live then no use is known.");
    return notes;
  }
  if (uses.end->unread > 0)
    notes.push_back(
        fmt::format("The parameters of {} launches could not be read: \"not seen\" may be wrong.",
                    grouped(uses.end->unread)));
  if (uses.end->left_out > 0)
    notes.push_back(fmt::format("{} blocks were not followed.", grouped(uses.end->left_out)));
  return notes;
}

bool may_be_moved(UseAtPeak use) {
  return use != UseAtPeak::kInUse && use != UseAtPeak::kNotKnown;
}

}  // namespace gpupeak::collector
