// Replays a log with a change. If the log leaves open how an arena would have gone on, several
// courses are simulated, each with another answer; the truth lies between them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/fit/arena_requests.h"
#include "collector/log/kinds.h"
#include "collector/replay/replay.h"
#include "collector/summary/what_if.h"
#include "collector/text/name_match.h"
#include "collector/text/scope_key.h"

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
  void set(uint64_t ticks, const WhatIfPoint& point) {
    if (!points_.empty() && is_same(points_.back(), point)) return;
    points_.push_back(point);
    points_.back().time = static_cast<int64_t>(ticks);
    if (points_.size() == kMostPoints) shorten();
  }
  /// With the times of the points in ticks.
  std::vector<WhatIfPoint> points() && { return std::move(points_); }

 private:
  static bool is_same(const WhatIfPoint& a, const WhatIfPoint& b) {
    return a.before == b.before && a.least == b.least && a.most == b.most;
  }
  static void raise(WhatIfPoint& highest, const WhatIfPoint& other) {
    highest.before = std::max(highest.before, other.before);
    highest.least = std::max(highest.least, other.least);
    highest.most = std::max(highest.most, other.most);
  }
  void shorten() {
    const int64_t begin = points_.front().time;
    const int64_t width = (points_.back().time - begin) / static_cast<int64_t>(kStretches) + 1;
    std::vector<WhatIfPoint> kept;
    for (size_t first = 0; first < points_.size();) {
      const int64_t stretch = (points_[first].time - begin) / width;
      WhatIfPoint highest = points_[first];
      size_t last = first;
      for (size_t next = first + 1;
           next < points_.size() && (points_[next].time - begin) / width == stretch; ++next) {
        raise(highest, points_[next]);
        last = next;
      }
      kept.push_back(highest);
      if (!is_same(highest, points_[last])) kept.push_back(points_[last]);
      first = last + 1;
    }
    points_ = std::move(kept);
  }

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
    BlockUses uses = {};
    bool was_never_used() const { return uses.is_known && uses.count == 0; }
  };

  void on_block_alloc(const DeviceBlock& block) override {
    blocks_[block.alloc.id] = of_driver_.size();
    of_driver_.push_back({block.group, block.alloc.id, block.alloc.bytes, block.ticks});
  }
  void on_block_free(const DeviceBlock& block) override {
    if (const size_t* const known = value_in(blocks_, block.alloc.id))
      of_driver_[*known].end = now_;
  }
  void before(const Event& event) override { now_ = event.ticks; }
  void on_arena_block(const ArenaBlockChange& change) override {
    if (!change.in_use) return;
    in_arenas_[{change.arena, change.address}] = of_arenas_.size();
    of_arenas_.push_back(kNotKnown);
  }
  void on_used(const UsedEvent& used, uint64_t ticks) override {
    if (used.arena == 0) {
      if (const auto known = blocks_.find(used.block); known != blocks_.end())
        of_driver_[known->second].uses.add(used, ticks);
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
  double of_group(GroupId group) {
    const auto [entry, is_new] = by_group_.try_emplace(group);
    if (is_new) {
      const Site& site = profile_.replay().sites().info(group);
      const SiteContext& context = profile_.replay().sites().context_of(group);
      entry->second =
          find(site.stack, context.phase, {profile_.tagger().name(profile_.tagger().tag(group))});
    }
    return entry->second.factor;
  }
  /// The factor for a block that an arena handed out.
  double of_holder(HolderId holder) {
    const auto [entry, is_new] = by_holder_.try_emplace(holder);
    if (is_new) {
      const ArenaTable::Holder& of = profile_.replay().arenas().holder(holder);
      std::vector<std::string> names{profile_.tagger().name(profile_.tagger().tag(of))};
      if (of.name != 0) names.emplace_back(profile_.replay().name(of.name));
      entry->second = find(of.stack, of.cause.phase, names);
    }
    return entry->second.factor;
  }
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
  Found find(uint32_t stack, PhaseId phase, const std::vector<std::string>& names) {
    Found found;
    if (scales_.empty()) return found;
    std::vector<std::string> texts = names;
    texts.push_back(profile_.titles().title(stack));
    for (const Call& call : profile_.calls(stack)) {
      texts.push_back(frame_title(*call.frame));
      texts.push_back(call.frame->function);
    }
    for (; phase != 0; phase = profile_.replay().phases().phases()[phase].parent) {
      const Phase& of = profile_.replay().phases().phases()[phase];
      texts.push_back(phase_text(profile_.replay(), {of.name, of.source, of.instance}));
    }
    found.by.resize(scales_.size());
    for (size_t i = 0; i < scales_.size(); ++i) {
      const bool matches = std::ranges::any_of(
          texts, [&](const std::string& text) { return glob_match(scales_[i].pattern, text); });
      found.by[i] = matches;
      if (matches) found.factor *= scales_[i].factor;
    }
    return found;
  }
  void note(const Found& found) {
    for (size_t i = 0; i < found.by.size(); ++i) matched_[i] += found.by[i];
  }

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

  void on_step(std::span<const PeakFinder::Change> step) override {
    if (changes_.scales.empty()) return;
    for (const PeakFinder::Change& part : step) {
      const SiteContext& context = replay().sites().context_of(part.group);
      if (is_device_kind(context.kind) || !counts_into_sum(context.kind)) continue;
      const double factor = scales_.of_group(part.group);
      if (part.allocates) scales_.note_group(part.group);
      const uint64_t bytes = times(static_cast<uint64_t>(std::abs(part.bytes)), factor);
      change_all(group_of(kHost, Row::kOutside, part.group),
                 part.bytes < 0 ? -static_cast<int64_t>(bytes) : static_cast<int64_t>(bytes),
                 factor == 0 ? int16_t{0} : part.count);
    }
  }

  void before(const Event& event) override {
    while (!due_.empty() && due_.begin()->first < event.ticks) {
      const uint64_t ticks = due_.begin()->first;
      for (; !due_.empty() && due_.begin()->first == ticks; due_.erase(due_.begin()))
        let_go(due_.begin()->second);
      apply(ticks);
    }
  }

  void on_block_alloc(const DeviceBlock& block) override {
    const size_t number = driver_blocks_++;
    const LastUseTimes::Block& life = arenas_.last_uses.of_driver(number);
    const uint64_t id = block.alloc.id;
    const bool is_shared_out = arenas_.shared_out.contains(id);
    if (changes_.one_for_two && number == changes_.one_for_two->first) both_ = block;
    const bool is_second = changes_.one_for_two && number == changes_.one_for_two->second;
    if (is_second) second_id_ = id;
    if (is_second || (changes_.without_unused && life.was_never_used() && !is_shared_out)) {
      gone_.insert(id);
      return;
    }
    if (changes_.take_at_first_use && life.uses.count > 0 && !is_shared_out) {
      may_go_[id] = block;
      due_.emplace(life.uses.first, Due{id, nullptr, 0, 0, true});
      return;
    }
    count(block, +1);
    if (changes_.free_at_last_use && life.uses.count > 0 && !is_shared_out) {
      may_go_[id] = block;
      due_.emplace(life.uses.last, Due{id, nullptr, 0, 0});
    }
  }
  void on_block_free(const DeviceBlock& block) override {
    const uint64_t id = block.alloc.id;
    const bool is_first = both_ && both_->alloc.id == id;
    if ((is_first || id == second_id_) && both_ && --of_two_ > 0) {
      gone_.erase(id);
      return;  // the memory of both stays for the other
    }
    if (id == second_id_ && both_) {
      count(*both_, -1);
      gone_.erase(id);
      return;
    }
    if (gone_.erase(id) > 0) return;
    if (may_go_.erase(id) > 0 && changes_.take_at_first_use) return;  // it never came
    count(block, -1);
    if (arenas_.shared_out.contains(block.alloc.id)) {
      for (auto& [row, arena] : rows_) arena.catch_up();
    }
  }

  /// Told before the arena's own event.
  void on_arena_block(const ArenaBlockChange& change) override {
    const ArenaTable::Holder& holder = replay().arenas().holder(change.holder);
    const ArenaTable::Arena& info = replay().arenas().arenas()[holder.arena];
    if (change.in_use) last_use_ = arenas_.last_uses.of_arenas(arena_blocks_++);
    // Blocks in no segment, and of arenas that were cut out of the program's own block, do not
    // count here.
    if (info.place < 0 || change.alone || info.largest_capacity_bytes > 0) return;
    Row& row = row_of(holder.arena);
    last_holder_ = change.holder;
    if (row.is_forecast()) {
      if (!change.in_use) drop(row, change.address);
      return;
    }
    const double factor = scales_.of_holder(change.holder);
    if (change.in_use) scales_.note_holder(change.holder);
    if (factor != 1) row.is_touched = true;
    if (factor > 1) row.grows = true;
    if (change.in_use) {
      const uint64_t bytes = times(change.bytes, factor);
      std::array<uint64_t, kCourses> all;
      all.fill(bytes);
      all[kLow] = times(least_asked(replay().name(info.name), change.bytes), factor);
      hold(row, change.address, change.holder, all);
    } else {
      drop(row, change.address);
    }
  }
  void on_arena_alloc(const ArenaAllocEvent& alloc, uint32_t /*stack*/) override {
    Row* const row = forecast_of(alloc.arena);
    if (row == nullptr) return;
    const double factor = scales_.of_holder(last_holder_);
    scales_.note_holder(last_holder_);
    std::array<uint64_t, kCourses> bytes{};
    for (size_t course = 0; course < kCourses; ++course)
      bytes[course] = row->forecasts[course].give(factor);
    ++row->given;
    hold(*row, alloc.address, last_holder_, bytes);
  }
  void on_arena_free(const ArenaFreeEvent& free) override {
    Row* const row = forecast_of(free.arena);
    if (row == nullptr) return;
    for (ArenaForecast& forecast : row->forecasts) forecast.take();
    is_changed_ = true;
  }

  void after(const Event& event) override {
    if (is_changed_ || !changed_[kLow].empty()) apply(event.ticks);
    for (auto& [device, drawn] : drawn_) drawn.curve.set(event.ticks, point_of(device, drawn));
  }

  /// Call it before the replay: the curves of these devices are wanted.
  void draw(const std::vector<int32_t>& devices) {
    for (const int32_t device : devices) {
      const ScopeId* const scope = profile_.replay().sites().find_scope(key_of(device));
      drawn_[device].recorded = scope != nullptr ? *scope : ScopeId(UINT32_MAX);
    }
  }

  void finish() {
    for (PeakFinder& peaks : peaks_) peaks.finish();
  }

  WhatIfSum sum_of(int32_t device, size_t top) const {
    WhatIfSum sum;
    sum.device = device;
    const auto scope = scopes_.find(device);
    if (scope == scopes_.end()) {
      sum.most_bytes = 0;
      return sum;
    }
    size_t low = 0, high = 0;
    for (size_t course = 1; course < kCourses; ++course) {
      const uint64_t peak = peaks_[course].scope(scope->second).peak;
      if (peak < peaks_[low].scope(scope->second).peak) low = course;
      if (peak > peaks_[high].scope(scope->second).peak) high = course;
    }
    const PeakFinder::Scope& least = peaks_[low].scope(scope->second);
    const PeakFinder::Scope& most = peaks_[high].scope(scope->second);
    sum.least_bytes = least.peak - beside(low, device, Beside::kLess);
    const bool bounded = is_bounded(device);
    if (bounded) sum.most_bytes = most.peak + beside(high, device, Beside::kMore);
    sum.time_ns = profile_.to_ns(bounded ? most.peak_ticks : least.peak_ticks);
    add_holders(bounded ? high : low, device, bounded ? Beside::kMore : Beside::kLess, top, sum);
    return sum;
  }
  /// The curve of a device. Call it once.
  std::vector<WhatIfPoint> take_curve(int32_t device) {
    const auto drawn = drawn_.find(device);
    if (drawn == drawn_.end()) return {};
    std::vector<WhatIfPoint> points = std::move(drawn->second.curve).points();
    for (WhatIfPoint& point : points)
      point.time = profile_.to_ns(static_cast<uint64_t>(point.time));
    return points;
  }
  bool is_touched_without_forecast(int32_t device) const {
    return std::ranges::any_of(rows_, [&](const auto& entry) {
      return replay_arena(entry.first).place == device && !entry.second.is_forecast() &&
             (entry.second.is_touched || is_without_advance(entry.first));
    });
  }
  const std::vector<uint64_t>& matched() const { return scales_.matched(); }

 private:
  using Asked = ArenaForecast::Asked;
  /// What each course assumes that was asked for: what the log leaves open, each answers otherwise.
  static constexpr std::array kAsked{Asked::kLeast, Asked::kMost, Asked::kLikely, Asked::kMixed,
                                     Asked::kMixed};
  static constexpr size_t kCourses = kAsked.size();
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
    ScopeId recorded;  ///< the replay's scope; UINT32_MAX: nothing counts into it
    ChangeCurve curve;
  };

  static uint64_t times(uint64_t bytes, double factor) {
    return factor == 1 ? bytes
                       : static_cast<uint64_t>(std::floor(static_cast<double>(bytes) * factor));
  }
  static std::string key_of(int32_t device) {
    return (device == kHost ? ScopeKey::host() : ScopeKey::device(device)).text();
  }
  /// The least that may have been asked for a block: an arena gives a whole piece if the rest is
  /// not worth splitting off, and with a change it may find a smaller one.
  static uint64_t least_asked(std::string_view arena, uint64_t bytes) {
    constexpr uint64_t kTorchRest = 1u << 20, kBfcRest = 128u << 20;
    if (arena == "PyTorch") return bytes > kTorchRest ? bytes - kTorchRest : bytes;
    if (arena.starts_with("ONNX Runtime") || arena.starts_with("XLA"))
      return bytes - std::min(bytes / 2, kBfcRest);
    return bytes;
  }

  void apply(uint64_t ticks) {
    is_changed_ = false;
    for (auto& [number, row] : rows_) set_idle(number, row);
    for (auto& [device, bytes] : segments_) set_unclaimed(device, bytes);
    for (size_t course = 0; course < kCourses; ++course) {
      if (!changed_[course].empty()) peaks_[course].apply(changed_[course], ticks);
      changed_[course].clear();
    }
  }

  /// What was recorded, and the bounds of all courses, now.
  WhatIfPoint point_of(int32_t device, const Drawn& drawn) const {
    WhatIfPoint point;
    point.before = replay().current(drawn.recorded);
    const auto scope = scopes_.find(device);
    if (scope == scopes_.end()) return point;
    point.least = UINT64_MAX;
    for (size_t course = 0; course < kCourses; ++course) {
      const uint64_t bytes = peaks_[course].scope(scope->second).current;
      uint64_t less = 0, more = 0;
      for (const auto& [number, row] : rows_) {
        if (row.may_be_off == 0 || replay_arena(number).place != device) continue;
        less += std::min(row.may_be_off, row.idle[course]);
        more += row.may_be_off;
      }
      point.least = std::min(point.least, bytes - less);
      point.most = std::max(point.most, bytes + more);
    }
    return point;
  }

  const ArenaTable::Arena& replay_arena(size_t row) const {
    return profile_.replay().arenas().arenas()[row];
  }
  bool is_without_advance(size_t row) const {
    return changes_.no_preallocation && row < arenas_.in_advance.size() && arenas_.in_advance[row];
  }

  /// Whether an arena of the device, also one that appears later, took memory in advance which it
  /// would not take with the change.
  bool takes_less_in_advance(int32_t device) const {
    const auto& arenas = profile_.replay().arenas().arenas();
    for (size_t number = 0; number < arenas.size(); ++number) {
      if (arenas[number].place == device && is_without_advance(number)) return true;
    }
    return false;
  }

  Row& row_of(size_t number) {
    const auto [entry, is_new] = rows_.try_emplace(number);
    if (!is_new) return entry->second;
    const auto history = arenas_.histories.find(replay_arena(number).place);
    if (history == arenas_.histories.end() || is_without_advance(number)) return entry->second;
    using Rules = ArenaForecast::Rules;
    const std::string_view name = profile_.replay().name(replay_arena(number).name);
    Rules rules = Rules::kAsRecorded;
    if (changes_.expandable_segments && name == "PyTorch") rules = Rules::kExpandableSegments;
    if (changes_.same_as_requested && name.starts_with("ONNX Runtime"))
      rules = Rules::kSameAsRequested;
    // Memory that is unmapped in the middle of a range may be mapped again there, or behind it.
    if (rules == Rules::kExpandableSegments && gives_back(*history->second)) {
      entry->second.is_touched = true;
      return entry->second;
    }
    for (size_t course = 0; course < kCourses; ++course)
      entry->second.forecasts.emplace_back(*history->second, rules, kAsked[course], course);
    // Then no course may be the true one: the truth may be a step away from all.
    if (rules == Rules::kExpandableSegments && !history->second->knows_all_requests()) {
      entry->second.may_be_off = ArenaForecast::kGrowingStep;
      // Makes the group in which that counts.
      group_of(replay_arena(number).place, Row::kIdle, number);
    }
    return entry->second;
  }
  static bool gives_back(const ArenaRequests& history) {
    return std::ranges::any_of(
        history.steps(), [](const auto& step) { return step.what == ArenaRequests::What::kEmpty; });
  }
  Row* forecast_of(uint64_t arena) {
    const int32_t place = replay().arenas().place_of(arena);
    if (!arenas_.histories.contains(place)) return nullptr;
    const size_t number = replay().arenas().holder(last_holder_).arena;
    const auto row = rows_.find(number);
    return row != rows_.end() && row->second.is_forecast() ? &row->second : nullptr;
  }

  GroupId group_of(int32_t device, Row::What what, uint64_t number) {
    const auto [scope, is_new_scope] = scopes_.try_emplace(device);
    if (is_new_scope) {
      for (PeakFinder& peaks : peaks_) scope->second = peaks.add_scope();
    }
    const auto [group, is_new] = groups_.try_emplace({device, what, number});
    if (is_new) {
      for (PeakFinder& peaks : peaks_) group->second = peaks.add_group(std::array{scope->second});
      keys_.push_back({device, what, number});
    }
    return group->second;
  }
  void change(size_t course, GroupId group, int64_t bytes, int16_t count) {
    if (bytes == 0 && count == 0) return;
    changed_[course].push_back({group, bytes, count, count > 0});
  }
  void change_all(GroupId group, int64_t bytes, int16_t count) {
    for (size_t course = 0; course < kCourses; ++course) change(course, group, bytes, count);
  }

  void count(const DeviceBlock& block, int sign) {
    const SiteContext& context = replay().sites().context_of(block.group);
    if (!is_device_kind(context.kind) || context.device < 0 || !counts_into_sum(context.kind))
      return;
    const auto bytes = static_cast<int64_t>(block.alloc.bytes);
    if (arenas_.shared_out.contains(block.alloc.id)) {
      segments_[context.device] += static_cast<uint64_t>(sign * bytes);
      is_changed_ = true;
      return;
    }
    const double factor = scales_.of_group(block.group);
    if (sign > 0) scales_.note_group(block.group);
    if (factor == 0) return;
    change_all(group_of(context.device, Row::kOutside, block.group),
               sign * static_cast<int64_t>(times(block.alloc.bytes, factor)),
               static_cast<int16_t>(sign));
  }

  void hold(Row& row, uint64_t address, HolderId holder,
            const std::array<uint64_t, kCourses>& bytes) {
    row.blocks.insert_or_assign(
        address, typename Row::Block{holder, bytes, ++serial_, row.given > 0 ? row.given - 1 : 0});
    if (changes_.free_at_last_use && last_use_ != LastUseTimes::kNotKnown)
      due_.emplace(last_use_, Due{0, &row, address, serial_});
    const int32_t device = place_of(holder);
    const GroupId group = group_of(device, Row::kInUse, static_cast<uint64_t>(holder));
    for (size_t course = 0; course < kCourses; ++course) {
      row.in_use[course] += bytes[course];
      change(course, group, static_cast<int64_t>(bytes[course]), bytes[course] > 0);
    }
  }
  void drop(Row& row, uint64_t address) {
    const auto block = row.blocks.find(address);
    if (block == row.blocks.end()) return;
    const GroupId group = group_of(place_of(block->second.holder), Row::kInUse,
                                   static_cast<uint64_t>(block->second.holder));
    for (size_t course = 0; course < kCourses; ++course) {
      const uint64_t bytes = block->second.bytes[course];
      row.in_use[course] -= bytes;
      change(course, group, -static_cast<int64_t>(bytes), bytes > 0 ? int16_t{-1} : int16_t{0});
    }
    row.blocks.erase(block);
    is_changed_ = true;
  }
  void let_go(const Due& due) {
    if (due.row == nullptr) {
      const auto block = may_go_.find(due.id);
      if (block == may_go_.end()) return;
      count(block->second, due.comes ? +1 : -1);
      if (!due.comes) gone_.insert(due.id);
      may_go_.erase(block);
      return;
    }
    const auto block = due.row->blocks.find(due.address);
    if (block == due.row->blocks.end() || block->second.serial != due.serial) return;
    for (ArenaForecast& forecast : due.row->forecasts) forecast.take_early(block->second.number);
    if (!due.row->is_forecast()) due.row->is_touched = true;
    drop(*due.row, due.address);
  }
  int32_t place_of(HolderId holder) const {
    return replay().arenas().arenas()[replay().arenas().holder(holder).arena].place;
  }

  uint64_t idle_of(size_t number, const Row& row, size_t course) const {
    uint64_t reserved = 0;
    if (row.is_forecast()) {
      reserved = row.forecasts[course].reserved();
    } else if (!(row.is_touched || is_without_advance(number)) || course == kHigh) {
      reserved = replay().arenas().level(number).reserved;
    }
    return reserved - std::min(reserved, row.in_use[course]);
  }
  void set_idle(size_t number, Row& row) {
    const int32_t device = replay_arena(number).place;
    for (size_t course = 0; course < kCourses; ++course) {
      const uint64_t idle = idle_of(number, row, course);
      if (idle == row.idle[course]) continue;
      change(course, group_of(device, Row::kIdle, number),
             static_cast<int64_t>(idle) - static_cast<int64_t>(row.idle[course]), 0);
      row.idle[course] = idle;
    }
  }
  /// Bytes of segments of which nothing was handed out yet. They count as idle, as an arena's rest
  /// does.
  void set_unclaimed(int32_t device, uint64_t segments) {
    uint64_t claimed = 0;
    // If the rules are known, they tell when a segment is taken.
    bool by_the_log = !takes_less_in_advance(device) && !arenas_.histories.contains(device);
    const ArenaTable& table = replay().arenas();
    for (size_t number = 0; number < table.arenas().size(); ++number) {
      const ArenaTable::Arena& arena = table.arenas()[number];
      if (arena.place != device || arena.largest_capacity_bytes > 0) continue;
      claimed += table.level(number).reserved;
      const auto row = rows_.find(number);
      by_the_log = by_the_log &&
                   (row == rows_.end() || !(row->second.is_forecast() || row->second.is_touched));
    }
    const uint64_t now = by_the_log ? segments - std::min(segments, claimed) : 0;
    uint64_t& before = unclaimed_[device];
    if (now == before) return;
    change_all(group_of(device, Row::kUnclaimed, 0),
               static_cast<int64_t>(now) - static_cast<int64_t>(before), 0);
    before = now;
  }

  std::string title_of(const Key& key) const {
    switch (key.what) {
      case Row::kOutside:
        return profile_.sites().holder({static_cast<GroupId>(key.number), 0, 0}, false).title;
      case Row::kInUse:
        return arena_title(HolderId{static_cast<uint32_t>(key.number)});
      case Row::kIdle:
        return "idle in " +
               profile_.definitions().shown(profile_.replay().name(replay_arena(key.number).name)) +
               "'s pool";
      case Row::kUnclaimed:
        break;
    }
    return "idle in pools";
  }
  std::string arena_title(HolderId holder) const {
    const ArenaTable::Holder& of = profile_.replay().arenas().holder(holder);
    return of.name != 0 ? profile_.definitions().shown(profile_.replay().name(of.name))
                        : profile_.titles().title(of.stack);
  }
  /// Whether the log tells how all arenas of the device would have grown.
  bool is_bounded(int32_t device) const {
    return std::ranges::none_of(rows_, [&](const auto& entry) {
      const auto& [number, row] = entry;
      return replay_arena(number).place == device && !row.is_forecast() &&
             (row.grows || is_without_advance(number));
    });
  }
  /// How far from a course's peak the truth may lie because of idle memory in arenas. Idle memory
  /// is never less than 0.
  uint64_t beside(size_t course, GroupId group, Beside side) const {
    const Key& key = keys_[group];
    if (key.what != Row::kIdle) return 0;
    const uint64_t off = rows_.at(key.number).may_be_off;
    const uint64_t idle = peaks_[course].at_peak(group, scopes_.at(key.device)).bytes;
    return side == Beside::kMore ? off : std::min(off, idle);
  }
  uint64_t beside(size_t course, int32_t device, Beside side) const {
    uint64_t sum = 0;
    for (GroupId group{0}; group < keys_.size(); ++group) {
      if (keys_[group].device == device) sum += beside(course, group, side);
    }
    return sum;
  }
  void add_holders(size_t course, int32_t device, Beside side, size_t top, WhatIfSum& sum) const {
    if (top == 0) {  // no site has to be named
      sum.other_bytes = sum.most_bytes.value_or(sum.least_bytes);
      return;
    }
    std::map<std::string, WhatIfSum::Holder> by_title;
    for (GroupId group{0}; group < keys_.size(); ++group) {
      if (keys_[group].device != device) continue;
      const PeakFinder::AtPeak held = peaks_[course].at_peak(group, scopes_.at(device));
      const uint64_t off = beside(course, group, side);
      const uint64_t bytes = side == Beside::kMore ? held.bytes + off : held.bytes - off;
      if (bytes == 0) continue;
      std::string title = title_of(keys_[group]);
      WhatIfSum::Holder& row = by_title[title];
      row.title = std::move(title);
      row.bytes += bytes;
      row.count += held.count;
    }
    sum.holders = values_of(std::move(by_title));
    std::ranges::stable_sort(sum.holders, std::ranges::greater(), &WhatIfSum::Holder::bytes);
    for (; sum.holders.size() > top; sum.holders.pop_back())
      sum.other_bytes += sum.holders.back().bytes;
  }

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
