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

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "collector/fit/arena_requests.h"
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
                     std::multimap<int32_t, std::unique_ptr<ArenaModel>> arenas = {});

  void on_block_alloc(const DeviceBlock& block) override;
  void on_block_free(const DeviceBlock& block) override;
  void on_phase_begin(PhaseTrack track, uint64_t number, const PhaseLabel& label,
                      uint64_t ticks) override;
  void on_phase_end(PhaseTrack track, uint64_t number, uint64_t ticks) override;
  void on_arena_block(const ArenaBlockChange& change) override;
  void on_arena_alloc(const ArenaAllocEvent& alloc, uint32_t stack) override;
  void on_arena_free(const ArenaFreeEvent& free) override;
  void on_arena_failed(const ArenaFailedEvent& failed, uint32_t stack) override;
  void after(const Event& event) override;

  /// Call it after the replay.
  std::map<int32_t, Sums> finish();
  /// The history of the device's arena, after finish(), by the rules by which it went, or else by
  /// those by which it went longest. nullptr: it was not watched.
  const ArenaRequests* arena(int32_t device) const;

 private:
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
  bool counts(const DeviceBlock& block) const;
  void look(int32_t ordinal, Device& device);
  void read(const Event& event);
  void refused(int32_t ordinal, uint64_t bytes);
  void settle(int32_t ordinal, Device& device, const Beyond& now);
  /// The histories of the device's arena, by each of the rules that it may have. Empty: it is not
  /// watched.
  std::span<ArenaRequests> arena_on(int32_t device);
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
