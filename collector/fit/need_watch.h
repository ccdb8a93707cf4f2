// What a run needs of each device, between two bounds. At each instant one is what is in use, the
// other what was taken from the driver, each with what the driver had taken for itself then. Each
// bound is the largest such sum, not the sum at one peak: arenas may hold the most when the least
// of it is in use.
//
//   at each instant            upper bound                    lower bound
//   linear memory              its pages                      its pages, without the arenas' ones
//   the driver's pools         reserved                       in use
//   segments of PyTorch's …    all                            blocks in use, as asked for where
//                                                             the log tells
//   contexts, code …           the larger of the readings     the smaller of the readings
//                              before and after
//
// need.h uses it, with the requests to an arena (arena_requests.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collector/fit/arena_requests.h"
#include "collector/log/kinds.h"
#include "collector/replay/ledger.h"
#include "collector/replay/replay.h"

namespace gpupeak::collector {

/// Watches a replay.
class NeedWatch : public ReplayObserver {
 public:
  /// What the driver has taken for itself, by the readings before and after.
  struct Beyond {
    uint64_t least = 0, most = 0;
  };
  struct Sums {
    uint64_t in_use = 0, held = 0;  ///< largest values, without the driver's own memory
    uint64_t least = 0, most = 0;   ///< largest values, with it
    /// As in_use and least, without the largest block in use at each instant: a library may have
    /// got it as a workspace only because there was room.
    uint64_t lean_in_use = 0, lean_least = 0;
    /// The largest sum of what arenas' blocks had beyond what was asked for, which is in no lower
    /// bound. None: the log does not tell that of any block.
    std::optional<uint64_t> padding;
    std::optional<Beyond> beyond;  ///< largest; none: no reading
    uint64_t local_memory = 0;     ///< largest; part of `beyond`
    uint64_t unexplained = 0;      ///< largest, in either direction
    bool others_known = false;     ///< the driver told other processes' memory apart
    /// Asked for plus in use at a refusal, if nothing was handed out since.
    std::optional<uint64_t> refused;
  };

  /// `shared_out`: blocks that arenas share out sooner or later. Before that such a block counts as
  /// idle, as what arenas have not handed out; a first replay finds them. `arenas`: by device, the
  /// rules of arenas that alone share out their device's memory; several: by any of them.
  explicit NeedWatch(std::unordered_set<uint64_t> shared_out = {},
                     std::multimap<int32_t, std::unique_ptr<ArenaModel>> arenas = {})
      : shared_out_(std::move(shared_out)) {
    for (auto& [device, rules] : arenas) arenas_[device].emplace_back(std::move(rules));
  }

  void on_block_alloc(const DeviceBlock& block) override {
    if (!counts(block)) return;
    Device& device = device_of(block);
    const DeviceAllocEvent& alloc = block.alloc;
    const bool of_arena = count(device, alloc, true);
    device.sums.refused.reset();
    for (ArenaRequests& arena : arena_on(replay().sites().context_of(block.group).device)) {
      if (!of_arena) break;
      arena.segment_taken(alloc.address, alloc.bytes);
      if (alloc.kind != GPUPEAK_KIND_LINEAR) arena.give_up("its segments grow in place");
      if (alloc.captured) arena.give_up("graphs have pools of their own");
    }
    if (of_arena && !replay().arenas().shared_out().contains(alloc.id) &&
        device.unclaimed.emplace(alloc.id, alloc.bytes).second) {
      device.unclaimed_bytes += alloc.bytes;
    }
  }
  void on_block_free(const DeviceBlock& block) override {
    if (!counts(block)) return;
    Device& device = device_of(block);
    const bool of_arena = count(device, block.alloc, false);
    for (ArenaRequests& arena : arena_on(replay().sites().context_of(block.group).device)) {
      if (of_arena) arena.segment_given_back(block.alloc.address, block.alloc.bytes);
    }
    const auto unclaimed = device.unclaimed.find(block.alloc.id);
    if (unclaimed == device.unclaimed.end()) return;
    device.unclaimed_bytes -= unclaimed->second;
    device.unclaimed.erase(unclaimed);
  }
  void on_phase_begin(PhaseTrack track, uint64_t number, const PhaseLabel& label,
                      uint64_t /*ticks*/) override {
    if (arenas_.empty() || track.of_process) return;
    const bool is_run = label.source == GPUPEAK_PHASE_ORT && replay().name(label.name) == "run";
    if (!is_run) return;
    runs_.insert(number);
    for (auto& [device, histories] : arenas_) {
      for (ArenaRequests& arena : histories) arena.begin_run();
    }
  }
  void on_phase_end(PhaseTrack /*track*/, uint64_t number, uint64_t /*ticks*/) override {
    if (runs_.erase(number) == 0) return;
    for (auto& [device, histories] : arenas_) {
      for (ArenaRequests& arena : histories) arena.end_run();
    }
  }
  void on_arena_block(const ArenaBlockChange& change) override {
    const std::pair<uint64_t, uint64_t> place{change.arena, change.address};
    if (const auto before = given_.find(place); before != given_.end()) {
      const Given& block = before->second;
      sizes_.erase(sizes_.find(block.needed));
      if (block.padding > 0) padding_[block.device] -= block.padding;
      given_.erase(before);
    }
    if (!change.in_use) return;
    const ArenaTable::Holder& holder = replay().arenas().holder(change.holder);
    const bool is_counted = holder.counted && !change.alone;
    const int32_t device = is_counted ? replay().arenas().arenas()[holder.arena].place : -1;
    given_[place] = {device, change.bytes, 0};
    sizes_.insert(change.bytes);
  }
  /// An arena gives a whole piece if little of it would be left. With less memory it has other
  /// pieces, so what it gave beyond the request is not needed.
  void on_arena_alloc(const ArenaAllocEvent& alloc, uint32_t stack) override {
    for (ArenaRequests& arena : arena_of(alloc.arena))
      arena.given(alloc.address, alloc.bytes, alloc.asked, stack);
    Given* const block = value_in(given_, {alloc.arena, alloc.address});
    if (block == nullptr || alloc.asked == 0 || alloc.asked > block->needed || block->device < 0)
      return;
    sizes_.erase(sizes_.find(block->needed));
    block->padding = block->needed - alloc.asked;
    block->needed = alloc.asked;
    padding_[block->device] += block->padding;
    sizes_.insert(block->needed);
  }
  void on_arena_free(const ArenaFreeEvent& free) override {
    for (ArenaRequests& arena : arena_of(free.arena)) arena.taken(free.address);
  }
  void on_arena_failed(const ArenaFailedEvent& failed, uint32_t /*stack*/) override {
    const auto& failures = replay().arenas().failures();
    if (!failures.empty()) refused(failures.back().device, failed.bytes);
  }
  void after(const Event& event) override {
    switch (event.tag) {
      case GPUPEAK_REC_DRIVER_READING:
        read(event);
        return;
      case GPUPEAK_REC_DEVICE_FAILED: {
        const DeviceFailedEvent failed = parse_device_failed(event);
        const bool of_device = is_device_kind(failed.kind) && failed.kind != GPUPEAK_KIND_VMM_VA;
        if (of_device) refused(failed.device, failed.bytes);
        return;
      }
      case GPUPEAK_REC_DEVICE_ALLOC:
      case GPUPEAK_REC_DEVICE_FREE:
      case GPUPEAK_REC_DEVICE_REVIVE:
      case GPUPEAK_REC_POOL:
      case GPUPEAK_REC_ARENA:
      case GPUPEAK_REC_ARENA_ALLOC:
      case GPUPEAK_REC_ARENA_FREE:
        for (auto& [ordinal, device] : devices_) look(ordinal, device);
        return;
      default:
        return;
    }
  }

  /// Call it after the replay.
  std::map<int32_t, Sums> finish() {
    std::map<int32_t, Sums> all;
    for (auto& [ordinal, device] : devices_) {
      // Uncertain readings without a certain one behind them: the largest bounds the rest.
      const Beyond last{device.last.least, std::max(device.last.most, device.uncertain_beyond)};
      settle(ordinal, device, last);
      Sums& sums = all[ordinal] = device.sums;
      sums.others_known = device.others_at_start.has_value();
      const uint64_t start =
          device.of_nobody + (device.start ? own_start(*device.start, device.others_at_start) : 0);
      sums.most += start;
      if (sums.beyond) sums.beyond->most += start;
      for (ArenaRequests& arena : arena_on(ordinal)) arena.finish(start);
    }
    return all;
  }
  /// The history of the device's arena, after finish(), by the rules by which it went, or else by
  /// those by which it went longest. nullptr: it was not watched.
  const ArenaRequests* arena(int32_t device) const {
    const auto found = arenas_.find(device);
    if (found == arenas_.end()) return nullptr;
    const auto better = [](const ArenaRequests& a, const ArenaRequests& b) {
      return std::pair(!a.why_not().empty(), b.repeated()) <
             std::pair(!b.why_not().empty(), a.repeated());
    };
    return &*std::ranges::min_element(found->second, better);
  }

 private:
  /// The most that the driver has on a card that nobody uses (3.2 MiB on an H200). It is used if it
  /// is not told which memory in use at the start was other processes'.
  static constexpr uint64_t kIdleCard = 16u << 20;

  static uint64_t positive(int64_t bytes) {
    return static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
  }

  /// The most that NVML counts for no process where only this one uses a card: the above, and some
  /// MiB of each context.
  static constexpr uint64_t kOfNobody = 32u << 20;

  /// How much of the memory that was in use before the first context is this process's.
  static uint64_t own_start(uint64_t start, const std::optional<uint64_t>& others) {
    return others ? start - std::min(start, *others) : std::min(start, kIdleCard);
  }

  /// What the driver has taken for itself, without what was there before the first context.
  /// `own_bytes`: what NVML says of the process, if this reading has it; a snapshot keeps that of
  /// an earlier one.
  static Beyond beyond_of(const LedgerSnapshot& now, const std::optional<uint64_t>& own_bytes) {
    const int64_t causes = std::accumulate(now.causes.begin(), now.causes.end(), int64_t{0});
    const int64_t managed = now.causes[GPUPEAK_LEDGER_MANAGED];
    // Without a reading before the first context, that row has other processes' memory in it.
    const int64_t with_others = now.start ? 0 : now.causes[GPUPEAK_LEDGER_CONTEXT];
    // Managed memory moves to the host if there is no room for it.
    Beyond beyond{positive(causes - managed - with_others + std::min<int64_t>(now.unexplained, 0)),
                  positive(causes + std::max<int64_t>(now.unexplained, 0))};
    if (own_bytes) {
      const auto own =
          static_cast<int64_t>(*own_bytes) -
          static_cast<int64_t>(now.tracked.physical(positive(
              static_cast<int64_t>(now.tracked.of[GPUPEAK_KIND_LINEAR]) + now.linear_rounding)));
      beyond.most = std::max(beyond.most, positive(own));
      beyond.least = std::min(beyond.least, positive(own - managed));
    }
    return beyond;
  }

  struct Device {
    Sums sums;
    std::map<uint8_t, uint64_t> by_kind;  // live, as asked for
    PageCount pages, outside_pages;       // linear; without the arenas' blocks
    uint64_t outside_linear = 0;
    // Blocks that arenas will share out, with their bytes.
    std::unordered_map<uint64_t, uint64_t> unclaimed;
    uint64_t unclaimed_bytes = 0;
    uint64_t held = 0, in_use = 0, lean = 0;  // now
    // Since the last reading. What the driver has for itself is known with the next one.
    uint64_t held_since = 0, in_use_since = 0, lean_since = 0;
    Beyond last;
    std::optional<uint64_t> start, others_at_start;  // in use before the first context
    uint64_t of_nobody = 0;                          // what NVML counts for no process
    uint64_t uncertain_beyond = 0;                   // largest of the uncertain readings since
  };

  /// A block of an arena.
  struct Given {
    int32_t device = -1;   ///< the device on which it counts; -1: on none
    uint64_t needed = 0;   ///< bytes; at most those that it has
    uint64_t padding = 0;  ///< the other bytes
  };

  Device& device_of(const DeviceBlock& block) {
    return devices_[replay().sites().context_of(block.group).device];
  }
  bool counts(const DeviceBlock& block) const {
    const SiteContext& context = replay().sites().context_of(block.group);
    return is_device_kind(context.kind) && context.device >= 0 && counts_into_sum(context.kind);
  }
  /// Counts a block in or out. Returns whether it is one that arenas share out.
  bool count(Device& device, const DeviceAllocEvent& block, bool is_added) {
    const bool of_arena = shared_out_.contains(block.id);
    const uint64_t by = is_added ? block.bytes : 0 - block.bytes;
    device.by_kind[block.kind] += by;
    if (!of_arena && is_added) sizes_.insert(block.bytes);
    if (!of_arena && !is_added) sizes_.erase(sizes_.find(block.bytes));
    if (block.kind != GPUPEAK_KIND_LINEAR) return of_arena;
    device.pages.count(block.address, block.bytes, is_added);
    if (of_arena) return true;
    device.outside_pages.count(block.address, block.bytes, is_added);
    device.outside_linear += by;
    return false;
  }
  void look(int32_t ordinal, Device& device) {
    const ArenaTable& arenas = replay().arenas();
    for (auto block = device.unclaimed.begin(); block != device.unclaimed.end();) {
      if (arenas.shared_out().contains(block->first)) {
        device.unclaimed_bytes -= block->second;
        block = device.unclaimed.erase(block);
      } else {
        ++block;
      }
    }
    uint64_t idle = device.unclaimed_bytes;
    for (const ArenaTable::Arena& arena : arenas.arenas()) {
      if (arena.place != ordinal) continue;
      for (const auto& lying_there : arena.idle) {
        for (const auto& [elsewhere, counted] : lying_there)
          if (counted != kNoHolder) idle += arenas.live_bytes(counted);
      }
    }
    const uint64_t tracked = sum_of(device.by_kind, [](const auto& of) { return of.second; });
    const auto reserved = replay().device().pool_reserved().find(ordinal);
    const uint64_t in_arenas = device.by_kind[GPUPEAK_KIND_POOL];
    const uint64_t of_arenas =
        reserved != replay().device().pool_reserved().end() ? reserved->second.current : 0;
    device.held = tracked - device.by_kind[GPUPEAK_KIND_LINEAR] + device.pages.bytes() +
                  (std::max(of_arenas, in_arenas) - in_arenas);
    device.in_use = tracked - std::min(tracked, idle);
    const uint64_t outside = device.outside_pages.bytes();
    device.in_use += outside - std::min(outside, device.outside_linear);
    if (const auto padding = padding_.find(ordinal); padding != padding_.end()) {
      device.in_use -= std::min(device.in_use, padding->second);
      device.sums.padding = std::max(device.sums.padding.value_or(0), padding->second);
    }
    const uint64_t largest = sizes_.empty() ? 0 : *sizes_.rbegin();
    device.lean = device.in_use - std::min(device.in_use, largest);
    device.lean_since = std::max(device.lean_since, device.lean);
    device.held_since = std::max(device.held_since, device.held);
    device.in_use_since = std::max(device.in_use_since, device.in_use);
    for (ArenaRequests& arena : arena_on(ordinal))
      arena.others_have(device.held - std::min(device.held, arena.reserved()));
  }
  void read(const Event& event) {
    const DriverReadingEvent reading = parse_driver_reading(event);
    const auto entry = replay().device().ledgers().find(reading.device);
    if (entry == replay().device().ledgers().end() || !entry->second.last()) return;
    const DeviceLedger& ledger = entry->second;
    Device& device = devices_[reading.device];
    look(reading.device, device);
    const LedgerSnapshot& now = *ledger.last();
    device.start = now.start;
    device.others_at_start = ledger.others_at_start();
    if (now.ticks != event.ticks) {
      const uint64_t figure = ledger.figure(reading);
      // An uncertain reading shows that no more than this was in use: it has what another thread's
      // call has taken, and what one is about to give back.
      const auto own = static_cast<int64_t>(figure - std::min(figure, now.start.value_or(0)));
      device.sums.most = std::max(device.sums.most, positive(own));
      device.uncertain_beyond =
          std::max(device.uncertain_beyond, positive(own - static_cast<int64_t>(device.held)));
      for (ArenaRequests& arena : arena_on(reading.device))
        arena.at_once(positive(own - static_cast<int64_t>(arena.reserved())));
      return;
    }
    if (now.of_process) {
      const uint64_t listed = now.used + now.others.value_or(0);
      device.of_nobody = std::max(
          device.of_nobody, std::min(now.card_used - std::min(now.card_used, listed), kOfNobody));
    }
    const Beyond beyond =
        beyond_of(now, now.of_process || !reading.has_list ? reading.own : std::nullopt);
    settle(reading.device, device, beyond);
    Sums& sums = device.sums;
    if (!sums.beyond || beyond.most > sums.beyond->most) sums.beyond = beyond;
    sums.local_memory =
        std::max(sums.local_memory, positive(now.causes[GPUPEAK_LEDGER_LOCAL_MEMORY]));
    sums.unexplained = std::max(sums.unexplained,
                                positive(now.unexplained < 0 ? -now.unexplained : now.unexplained));
  }
  /// Notes that `bytes` more than what is in use were refused.
  void refused(int32_t ordinal, uint64_t bytes) {
    if (ordinal < 0) return;
    Device& device = devices_[ordinal];
    look(ordinal, device);
    // An arena's own refusal comes last, and its request is what was needed: the driver was asked
    // for a whole segment.
    device.sums.refused = device.in_use + device.last.least + bytes;
  }
  void settle(int32_t ordinal, Device& device, const Beyond& now) {
    Sums& sums = device.sums;
    sums.held = std::max(sums.held, device.held_since);
    sums.in_use = std::max(sums.in_use, device.in_use_since);
    sums.most = std::max(sums.most, device.held_since + std::max(device.last.most, now.most));
    for (ArenaRequests& arena : arena_on(ordinal))
      arena.driver_had(std::max(device.last.most, now.most));
    const uint64_t beyond = std::min(device.last.least, now.least);
    sums.least = std::max(sums.least, device.in_use_since + beyond);
    sums.lean_in_use = std::max(sums.lean_in_use, device.lean_since);
    sums.lean_least = std::max(sums.lean_least, device.lean_since + beyond);
    device.held_since = device.held;
    device.in_use_since = device.in_use;
    device.lean_since = device.lean;
    device.uncertain_beyond = 0;
    device.last = now;
  }
  /// The histories of the device's arena, by each of the rules that it may have. Empty: it is not
  /// watched.
  std::span<ArenaRequests> arena_on(int32_t device) {
    auto* const arenas = value_in(arenas_, device);
    return arenas == nullptr ? std::span<ArenaRequests>() : *arenas;
  }
  std::span<ArenaRequests> arena_of(uint64_t arena) {
    return arena_on(replay().arenas().place_of(arena));
  }

  const std::unordered_set<uint64_t> shared_out_;
  std::map<int32_t, Device> devices_;
  std::unordered_set<uint64_t> runs_;                     // open phases that are ONNX Runtime's run
  std::map<int32_t, std::vector<ArenaRequests>> arenas_;  // by device
  std::map<std::pair<uint64_t, uint64_t>, Given> given_;  // by arena and address
  std::map<int32_t, uint64_t> padding_;                   // padding of these, by device
  std::multiset<uint64_t> sizes_;  // sizes of these, and of the driver's blocks outside of arenas
};

}  // namespace gpupeak::collector
