// Replays a log with a change. If the log leaves open how an arena would have gone on, several
// courses are simulated, each with another answer; the truth lies between them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/fit/arena_forecast.h"
#include "collector/fit/arena_requests.h"
#include "collector/replay/replay.h"
#include "collector/summary/what_if.h"

namespace gpupeak::collector {

// A sum over time as it was recorded and as it would have been, for a page. WhatIfWatch has one for
// each sum that is drawn.
//
// in    the sum after each event that changed it
// out   at most kMostPoints points. With few changes each is there; with more of them stretches of
//       the run of equal length have the highest of what was in them and the last.
//
//   100 at 1 s, 300 at 1.1 s, 50 at 1.2 s, all in one stretch:  300 at 1 s, 50 at 1.2 s
class ChangeCurve {
 public:
  static constexpr size_t kStretches = 1000, kMostPoints = 4 * kStretches;

  /// From `ticks` on. One point at a time; several at the same time are told as the highest of
  /// them and the last.
  void set(uint64_t ticks, const WhatIfPoint& point);
  /// With the times of the points in ticks.
  std::vector<WhatIfPoint> points() &&;

 private:
  void shorten();

  std::vector<WhatIfPoint> points_;
};

// When each block of a log was last seen used, by the block's number. A replay in which blocks are
// freed right after their last use asks it when a block comes. For logs with uses.
class LastUseTimes : public ReplayObserver {
 public:
  static constexpr uint64_t kNotKnown = UINT64_MAX;
  /// A block that the program has from the driver. Times are ticks.
  struct Block {
    GroupId group{};
    uint64_t id = 0, bytes = 0;
    uint64_t begin = 0, end = kNotKnown;
    uint64_t first = kNotKnown, last = kNotKnown;  ///< uses
    bool is_known = false;                         ///< the log says whether it was used
    bool was_never_used() const { return is_known && last == kNotKnown; }
  };

  void on_block_alloc(const DeviceBlock& block) override {
    blocks_[block.alloc.id] = of_driver_.size();
    of_driver_.push_back({block.group, block.alloc.id, block.alloc.bytes, block.ticks});
  }
  void on_block_free(const DeviceBlock& block) override {
    if (const auto known = blocks_.find(block.alloc.id); known != blocks_.end())
      of_driver_[known->second].end = now_;
  }
  void before(const Event& event) override { now_ = event.ticks; }
  void on_arena_block(const ArenaBlockChange& change) override {
    if (!change.in_use) return;
    in_arenas_[{change.arena, change.address}] = of_arenas_.size();
    of_arenas_.push_back(kNotKnown);
  }
  void on_used(const UsedEvent& used, uint64_t ticks) override {
    if (used.arena == 0) {
      const auto known = blocks_.find(used.block);
      if (known == blocks_.end()) return;
      Block& block = of_driver_[known->second];
      block.is_known = true;
      if (used.count == 0) return;
      block.first = std::min(block.first, ticks - used.first_ago);
      block.last = ticks - used.last_ago;
    } else if (const auto block = in_arenas_.find({used.arena, used.block});
               block != in_arenas_.end() && used.count > 0) {
      of_arenas_[block->second] = ticks - used.last_ago;
    }
  }

  // Blocks are numbered from 0 in the order in which an observer is told of them. Those of the
  // driver and those of arenas are numbered apart.
  const std::vector<Block>& of_driver() const { return of_driver_; }
  const Block& of_driver(size_t number) const {
    static const Block kNone;
    return number < of_driver_.size() ? of_driver_[number] : kNone;
  }
  /// In ticks; kNotKnown: the log does not say, or no use was seen.
  uint64_t of_arenas(size_t number) const {
    return number < of_arenas_.size() ? of_arenas_[number] : kNotKnown;
  }

 private:
  std::vector<Block> of_driver_;
  std::vector<uint64_t> of_arenas_;
  uint64_t now_ = 0;
  std::unordered_map<uint64_t, size_t> blocks_;                // by id
  std::map<std::pair<uint64_t, uint64_t>, size_t> in_arenas_;  // by arena and address
};

// How many times as large a change makes a block: by the functions of its stack, its site's title,
// its tag and its phases.
class ScaleFinder {
 public:
  /// Both must outlive the finder.
  ScaleFinder(Profile& profile, const std::vector<Changes::Scale>& scales)
      : profile_(profile), scales_(scales), matched_(scales.size()) {}

  /// The factor for a block of the driver or of malloc.
  double of_group(GroupId group);
  /// The factor for a block that an arena handed out.
  double of_holder(HolderId holder);
  /// A block of the group was allocated: counts what matched it.
  void note_group(GroupId group) { note(by_group_.at(group)); }
  void note_holder(HolderId holder) { note(by_holder_.at(holder)); }
  /// The number of blocks that each pattern has matched.
  const std::vector<uint64_t>& matched() const { return matched_; }

 private:
  struct Found {
    double factor = 1;
    std::vector<bool> by;  // of scales_
  };
  Found find(uint32_t stack, PhaseId phase, const std::vector<std::string>& names);
  void note(const Found& found);

  Profile& profile_;
  const std::vector<Changes::Scale>& scales_;
  std::vector<uint64_t> matched_;
  std::unordered_map<GroupId, Found> by_group_;
  std::unordered_map<HolderId, Found> by_holder_;
};

/// What is known of a log's arenas before the change.
struct KnownArenas {
  std::unordered_set<uint64_t> shared_out;
  std::map<int32_t, const ArenaRequests*> histories;  ///< by device; those without a why_not()
  std::map<int32_t, std::string> why_not;             ///< by device, for the other histories
  std::vector<bool> in_advance;                       ///< by row
  LastUseTimes last_uses;  ///< used if blocks are freed after their last use
};

/// Goes through a log with a change.
class WhatIfWatch : public ReplayObserver {
 public:
  static constexpr int32_t kHost = -1;  ///< in place of a device's number

  WhatIfWatch(Profile& profile, const Changes& changes, const KnownArenas& arenas)
      : profile_(profile), changes_(changes), arenas_(arenas), scales_(profile, changes.scales) {}

  void on_step(std::span<const PeakFinder::Change> step) override;

  void before(const Event& event) override;

  void on_block_alloc(const DeviceBlock& block) override;
  void on_block_free(const DeviceBlock& block) override;

  /// Told before the arena's own event.
  void on_arena_block(const ArenaBlockChange& change) override;
  void on_arena_alloc(const ArenaAllocEvent& alloc, uint32_t /*stack*/) override;
  void on_arena_free(const ArenaFreeEvent& free) override;

  void after(const Event& event) override;

  /// Call it before the replay: the curves of these devices are wanted.
  void draw(const std::vector<int32_t>& devices);

  void finish();

  WhatIfSum sum_of(int32_t device, size_t top) const;
  /// The curve of a device. Call it once.
  std::vector<WhatIfPoint> take_curve(int32_t device);
  bool is_touched_without_forecast(int32_t device) const;
  const std::vector<uint64_t>& matched() const { return scales_.matched(); }

 private:
  /// What the log leaves open is answered in another way by each course (kAsked).
  static constexpr size_t kCourses = 5;
  static constexpr size_t kLow = 0, kHigh = 1;
  struct Row {
    enum What : uint8_t { kOutside, kInUse, kIdle, kUnclaimed };
    struct Block {
      HolderId holder;
      std::array<uint64_t, kCourses> bytes;
      uint64_t serial;  ///< number of the block among all blocks
      uint32_t number;  ///< number of the block in the forecasts
    };
    std::vector<ArenaForecast> forecasts;  // empty: the log's own figures are used
    std::unordered_map<uint64_t, Block> blocks;
    std::array<uint64_t, kCourses> in_use{}, idle{};
    uint32_t given = 0;  ///< blocks that the forecasts have given
    bool is_touched = false, grows = false;
    uint64_t may_be_off = 0;  ///< error in bytes, in either direction

    bool is_forecast() const { return !forecasts.empty(); }
    void catch_up() {
      for (ArenaForecast& forecast : forecasts) forecast.catch_up();
    }
  };
  /// A block that is to be freed after its last use, unless it has gone by then. For a block of the
  /// driver its id; for one of an arena its row, address and serial number.
  struct Due {
    uint64_t id;
    Row* row;
    uint64_t address, serial;
    bool comes = false;  ///< a block of the driver, which is taken now
  };
  /// On which side of a course the truth may lie.
  enum class Beside : uint8_t { kLess, kMore };
  struct Key {
    int32_t device;
    Row::What what;
    uint64_t number;
    auto operator<=>(const Key&) const = default;
  };

  /// A sum whose curve over time is wanted.
  struct Drawn {
    std::string key;                  ///< a ScopeKey
    std::optional<ScopeId> recorded;  ///< the replay's scope; none: nothing has counted into it yet
    ChangeCurve curve;
  };

  void apply(uint64_t ticks);

  /// What was recorded, and the bounds of all courses, now.
  WhatIfPoint point_of(int32_t device, Drawn& drawn) const;

  const ArenaTable::Arena& replay_arena(size_t row) const;
  bool is_without_advance(size_t row) const;

  /// Whether an arena of the device, also one that appears later, took memory in advance which it
  /// would not take with the change.
  bool takes_less_in_advance(int32_t device) const;

  Row& row_of(size_t number);
  static bool gives_back(const ArenaRequests& history);
  Row* forecast_of(uint64_t arena);

  GroupId group_of(int32_t device, Row::What what, uint64_t number);
  void change(size_t course, GroupId group, int64_t bytes, int16_t count);
  void change_all(GroupId group, int64_t bytes, int16_t count);

  void count(const DeviceBlock& block, int sign);

  void hold(Row& row, uint64_t address, HolderId holder,
            const std::array<uint64_t, kCourses>& bytes);
  void drop(Row& row, uint64_t address);
  void let_go(const Due& due);
  int32_t place_of(HolderId holder) const;

  uint64_t idle_of(size_t number, const Row& row, size_t course) const;
  void set_idle(size_t number, Row& row);
  /// Bytes of segments of which nothing was handed out yet. They count as idle, as an arena's rest
  /// does.
  void set_unclaimed(int32_t device, uint64_t segments);

  std::string title_of(const Key& key) const;
  std::string arena_title(HolderId holder) const;
  /// Whether the log tells how all arenas of the device would have grown.
  bool is_bounded(int32_t device) const;
  /// How far from a course's peak the truth may lie because of idle memory in arenas. Idle memory
  /// is never less than 0.
  uint64_t beside(size_t course, GroupId group, Beside side) const;
  uint64_t beside(size_t course, int32_t device, Beside side) const;
  void add_holders(size_t course, int32_t device, Beside side, size_t top, WhatIfSum& sum) const;

  Profile& profile_;
  const Changes& changes_;
  const KnownArenas& arenas_;
  ScaleFinder scales_;
  std::array<PeakFinder, kCourses> peaks_;
  std::array<std::vector<PeakFinder::Change>, kCourses> changed_;
  std::map<int32_t, ScopeId> scopes_;
  std::map<Key, GroupId> groups_;
  std::vector<Key> keys_;       // by group
  std::map<size_t, Row> rows_;  // of arenas
  std::map<int32_t, uint64_t> segments_, unclaimed_;
  std::map<int32_t, Drawn> drawn_;
  HolderId last_holder_{};
  std::multimap<uint64_t, Due> due_;                  // by the tick at which they are due
  std::unordered_map<uint64_t, DeviceBlock> may_go_;  // by id
  std::unordered_set<uint64_t> gone_;                 // freed before their end in the log
  /// Of Changes::one_for_two: the one that stands for both, and how many were not freed yet.
  size_t of_two_ = 2;
  std::optional<DeviceBlock> both_;
  std::optional<uint64_t> second_id_;
  size_t driver_blocks_ = 0, arena_blocks_ = 0;
  uint64_t last_use_ = LastUseTimes::kNotKnown, serial_ = 0;
  bool is_changed_ = false;
};

}  // namespace gpupeak::collector
