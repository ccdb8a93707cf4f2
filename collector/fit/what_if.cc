#include "collector/fit/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "collector/fit/arena_forecast.h"
#include "collector/fit/arena_rules.h"
#include "collector/fit/change_curve.h"
#include "collector/fit/last_use_times.h"
#include "collector/fit/need_watch.h"
#include "collector/fit/scale_finder.h"
#include "collector/log/kinds.h"
#include "collector/summary/arena_text.h"
#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

using What = ArenaTable::What;

using Asked = ArenaForecast::Asked;

/// Of what the log leaves open, each course has another answer.
constexpr std::array kAsked{Asked::kLeast, Asked::kMost, Asked::kLikely, Asked::kMixed,
                            Asked::kMixed};
constexpr size_t kCourses = kAsked.size();
constexpr size_t kLow = 0, kHigh = 1;
constexpr int32_t kHost = -1;

uint64_t times(uint64_t bytes, double factor) {
  return factor == 1 ? bytes
                     : static_cast<uint64_t>(std::floor(static_cast<double>(bytes) * factor));
}

std::string key_of(int32_t device) {
  return (device == kHost ? ScopeKey::host() : ScopeKey::device(device)).text();
}

/// What may have been asked for of a block: an arena gives a whole piece where the rest is not
/// worth to be split off, and with a change it may find a smaller one.
uint64_t least_asked(std::string_view arena, uint64_t bytes) {
  constexpr uint64_t kTorchRest = 1u << 20, kBfcRest = 128u << 20;
  if (arena == "PyTorch") return bytes > kTorchRest ? bytes - kTorchRest : bytes;
  if (arena.starts_with("ONNX Runtime") || arena.starts_with("XLA"))
    return bytes - std::min(bytes / 2, kBfcRest);
  return bytes;
}

/// What is known of a log's arenas before the change.
struct Arenas {
  std::unordered_set<uint64_t> shared_out;
  std::map<int32_t, const ArenaRequests*> histories;  ///< that repeat, by device
  std::map<int32_t, std::string> why_not;             ///< of those that do not
  std::vector<bool> in_advance;                       ///< by row
  LastUseTimes last_uses;                             ///< where blocks are to go by them
};

/// Goes through a log with a change.
class WhatIfWatch : public ReplayObserver {
 public:
  WhatIfWatch(Profile& profile, const Changes& changes, const Arenas& arenas)
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
    count(block, +1);
    const uint64_t last = arenas_.last_uses.of_driver(driver_blocks_++);
    if (changes_.free_at_last_use && last != LastUseTimes::kNotKnown &&
        !arenas_.shared_out.contains(block.alloc.id)) {
      may_go_[block.alloc.id] = block;
      due_.emplace(last, Due{block.alloc.id, nullptr, 0, 0});
    }
  }
  void on_block_free(const DeviceBlock& block) override {
    if (gone_.erase(block.alloc.id) > 0) return;
    may_go_.erase(block.alloc.id);
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
    // What lies in no segment, and what an arena cut out of the program's own block.
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

  /// From the begin on.
  void draw(const std::vector<int32_t>& devices) {
    for (const int32_t device : devices) drawn_[device].key = key_of(device);
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
  /// Once.
  std::vector<WhatIfPoint> take_curve(int32_t device) {
    const auto drawn = drawn_.find(device);
    if (drawn == drawn_.end()) return {};
    std::vector<WhatIfPoint> points = std::move(drawn->second.curve).points();
    for (WhatIfPoint& point : points)
      point.time = profile_.to_ns(static_cast<uint64_t>(point.time));
    return points;
  }
  bool is_touched_without_forecast(int32_t device) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const auto& entry) {
      return replay_arena(entry.first).place == device && !entry.second.is_forecast() &&
             (entry.second.is_touched || is_without_advance(entry.first));
    });
  }
  const std::vector<uint64_t>& matched() const { return scales_.matched(); }

 private:
  struct Row {
    enum What : uint8_t { kOutside, kInUse, kIdle, kUnclaimed };
    struct Block {
      HolderId holder;
      std::array<uint64_t, kCourses> bytes;
      uint64_t serial;  ///< of all blocks
      uint32_t number;  ///< in the forecasts
    };
    std::vector<ArenaForecast> forecasts;  // empty: by the log's own figures
    std::unordered_map<uint64_t, Block> blocks;
    std::array<uint64_t, kCourses> in_use{}, idle{};
    uint32_t given = 0;  ///< by the forecasts
    bool is_touched = false, grows = false;
    uint64_t may_be_off = 0;  ///< bytes, to either side

    bool is_forecast() const { return !forecasts.empty(); }
    void catch_up() {
      for (ArenaForecast& forecast : forecasts) forecast.catch_up();
    }
  };
  /// A block that goes when it was last seen used, unless it has gone: of the driver's its id, else
  /// which one of a row's lies at the address.
  struct Due {
    uint64_t id;
    Row* row;
    uint64_t address, serial;
  };
  /// To which side of a course the truth may lie.
  enum class Beside : uint8_t { kLess, kMore };
  struct Key {
    int32_t device;
    Row::What what;
    uint64_t number;
    auto operator<=>(const Key&) const = default;
  };

  /// A sum whose course is wanted.
  struct Drawn {
    std::string key;                  ///< a ScopeKey
    std::optional<ScopeId> recorded;  ///< of the replay; none: it has not had any memory yet
    ChangeCurve curve;
  };

  void apply(uint64_t ticks) {
    is_changed_ = false;
    for (auto& [number, row] : rows_) set_idle(number, row);
    for (auto& [device, bytes] : segments_) set_unclaimed(device, bytes);
    for (size_t course = 0; course < kCourses; ++course) {
      if (!changed_[course].empty()) peaks_[course].apply(changed_[course], ticks);
      changed_[course].clear();
    }
  }

  /// Now: what was recorded, and between what all courses lie.
  WhatIfPoint point_of(int32_t device, Drawn& drawn) const {
    WhatIfPoint point;
    if (!drawn.recorded) {
      const ScopeId* const scope = replay().sites().find_scope(drawn.key);
      if (scope != nullptr) drawn.recorded = *scope;
    }
    if (drawn.recorded) point.before = replay().peaks().scope(*drawn.recorded).current;
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

  /// Whether an arena of the device, known by now or later, would not have taken what it did.
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
    // What is unmapped in the middle of a range may be mapped again there, or behind it.
    if (rules == Rules::kExpandableSegments && gives_back(*history->second)) {
      entry->second.is_touched = true;
      return entry->second;
    }
    for (size_t course = 0; course < kCourses; ++course)
      entry->second.forecasts.emplace_back(*history->second, rules, kAsked[course], course);
    // No course may be the true one then: the truth may be a step apart from all.
    if (rules == Rules::kExpandableSegments && !history->second->knows_all_requests()) {
      entry->second.may_be_off = ArenaForecast::kGrowingStep;
      group_of(replay_arena(number).place, Row::kIdle, number);  // where that is counted
    }
    return entry->second;
  }
  static bool gives_back(const ArenaRequests& history) {
    return std::any_of(history.steps().begin(), history.steps().end(),
                       [](const auto& step) { return step.what == ArenaRequests::What::kEmpty; });
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
      count(block->second, -1);
      gone_.insert(due.id);
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
  /// Segments that no arena has handed a part of out yet: as idle as the rest of an arena.
  void set_unclaimed(int32_t device, uint64_t segments) {
    uint64_t claimed = 0;
    // Where the rules are known they say when a segment is taken.
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
    return std::none_of(rows_.begin(), rows_.end(), [&](const auto& entry) {
      const auto& [number, row] = entry;
      return replay_arena(number).place == device && !row.is_forecast() &&
             (row.grows || is_without_advance(number));
    });
  }
  /// How far beside a course's peak the truth may lie for what is idle in an arena: never below
  /// nothing.
  uint64_t beside(size_t course, GroupId group, Beside side) const {
    const Key& key = keys_[group];
    if (key.what != Row::kIdle) return 0;
    const uint64_t off = rows_.at(key.number).may_be_off;
    const uint64_t idle = peaks_[course].at_peak(group, scopes_.at(key.device)).bytes;
    return side == Beside::kMore ? off : std::min(off, idle);
  }
  uint64_t beside(size_t course, int32_t device, Beside side) const {
    uint64_t sum = 0;
    for (GroupId group = 0; group < keys_.size(); ++group) {
      if (keys_[group].device == device) sum += beside(course, group, side);
    }
    return sum;
  }
  void add_holders(size_t course, int32_t device, Beside side, size_t top, WhatIfSum& sum) const {
    if (top == 0) {  // no site need be named
      sum.other_bytes = sum.most_bytes.value_or(sum.least_bytes);
      return;
    }
    std::map<std::string, WhatIfSum::Holder> by_title;
    for (GroupId group = 0; group < keys_.size(); ++group) {
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
    for (auto& [title, row] : by_title) sum.holders.push_back(std::move(row));
    std::stable_sort(sum.holders.begin(), sum.holders.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    for (; sum.holders.size() > top; sum.holders.pop_back())
      sum.other_bytes += sum.holders.back().bytes;
  }

  Profile& profile_;
  const Changes& changes_;
  const Arenas& arenas_;
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
  std::multimap<uint64_t, Due> due_;                  // by when
  std::unordered_map<uint64_t, DeviceBlock> may_go_;  // by id
  std::unordered_set<uint64_t> gone_;                 // before their time
  size_t driver_blocks_ = 0, arena_blocks_ = 0;
  uint64_t last_use_ = LastUseTimes::kNotKnown, serial_ = 0;
  bool is_changed_ = false;
};

bool is_torch_pool(const ArenaSummary& arena) {
  return arena.device.has_value() && arena.name == "PyTorch";
}
bool is_ort_arena(const ArenaSummary& arena) {
  return arena.device.has_value() && arena.name.starts_with("ONNX Runtime");
}
bool took_in_advance(const ArenaSummary& arena) {
  return arena.device.has_value() && was_taken_in_advance(arena);
}

/// A setting of an arena that the log does not have is a mistake.
void require_arenas(const Summary& summary, const Changes& changes) {
  const auto require = [&](bool is_asked, bool (*is)(const ArenaSummary&), const char* text) {
    if (is_asked && std::none_of(summary.arenas.begin(), summary.arenas.end(), is))
      throw UsageError(text);
  };
  require(changes.expandable_segments, is_torch_pool,
          "--expandable-segments: the log has no pool of PyTorch's on a GPU");
  require(changes.same_as_requested, is_ort_arena,
          "--arena same-as-requested: the log has no arena of ONNX Runtime's on a GPU");
  require(changes.no_preallocation, took_in_advance,
          "--no-preallocation: the log has no pool that took its memory in advance");
  if (changes.free_at_last_use && !summary.has_uses)
    throw UsageError(
        "--free-at-last-use: the log does not say when memory was used: record it with "
        "`gpupeak run --last-use`");
}

const Peak* largest_device_peak(const Summary& summary) {
  const Peak* largest = nullptr;
  for (const DeviceSummary& device : summary.devices) {
    const Peak* peak = summary.find_peak(ScopeKey::device(device.ordinal).text());
    if (peak != nullptr && (largest == nullptr || peak->bytes > largest->bytes)) largest = peak;
  }
  return largest;
}

void add_used(const DeviceSummary& device, WhatIfSum& sum) {
  if (!device.ledger || !sum.is_exact()) return;
  const LedgerView& view = device.ledger->at_peak;
  if (view.tracked_bytes != sum.before_bytes) return;
  sum.used_before_bytes = view.used_bytes;
  sum.used_bytes = view.used_bytes - sum.before_bytes + sum.least_bytes;
}

/// A log, and what is known of it before any change.
class Before {
 public:
  /// `known`: the log's summary, if it is there already.
  Before(const std::string& path, const Options& options, const Progress& progress,
         const Summary* known = nullptr)
      : options_(options), progress_(progress), profile_(path, progress, &first_, options.reading) {
    arenas_.shared_out = profile_.replay().arenas().shared_out();
    if (!arenas_.shared_out.empty()) {
      again_.emplace(arenas_.shared_out, rules_of(profile_.replay()));
      profile_.replay_again(*again_, progress);
      again_->finish();
    }
    if (known == nullptr) made_ = summarize(profile_, options);
    summary_ = known == nullptr ? &made_ : known;
    find_histories();
    find_advances();
  }

  const Summary& summary() const { return *summary_; }
  /// Whether the replay comes to that peak. Where events were lost it may not, nor where the log
  /// has grown since.
  bool has(const Peak& peak) const {
    const ScopeId* const scope = profile_.replay().sites().find_scope(peak.scope);
    return scope != nullptr && profile_.sum(*scope).peak == peak.bytes;
  }

  WhatIf with(const Changes& changes, WithCurves curves = WithCurves::kNo) {
    require_arenas(*summary_, changes);
    if (changes.free_at_last_use) find_last_uses();
    WhatIf result;
    result.changes = changes;
    result.log = summary_->log_path;
    result.duration_ns = summary_->run.duration_ns;
    WhatIfWatch changed(profile_, changes, arenas_);
    if (curves == WithCurves::kYes) changed.draw(drawn(changes));
    profile_.replay_again(changed, progress_);
    changed.finish();
    result.matched = changed.matched();
    for (const DeviceSummary& device : summary_->devices) {
      const Peak* peak = summary_->find_peak(ScopeKey::device(device.ordinal).text());
      if (!was_used(device) || peak == nullptr) continue;
      WhatIfSum sum = sum_of(changed, device.ordinal, *peak);
      sum.name = device.name;
      add_used(device, sum);
      add_note(changed, sum);
      result.sums.push_back(std::move(sum));
    }
    const Peak* host = summary_->find_peak(ScopeKey::host().text());
    if (has_host(changes) && host != nullptr) result.sums.push_back(sum_of(changed, kHost, *host));
    return result;
  }

 private:
  /// Once.
  void find_last_uses() {
    if (has_last_uses_) return;
    profile_.replay_again(arenas_.last_uses, progress_);
    has_last_uses_ = true;
  }
  void find_histories() {
    if (!again_) return;  // no arena shared anything out
    for (const DeviceSummary& device : summary_->devices) {
      const ArenaRequests* const history = again_->arena(device.ordinal);
      if (history == nullptr) continue;
      if (history->why_not().empty()) {
        arenas_.histories[device.ordinal] = history;
      } else {
        arenas_.why_not[device.ordinal] = history->why_not();
      }
    }
  }
  void find_advances() {
    for (const ArenaTable::Arena& info : profile_.replay().arenas().arenas()) {
      const std::string name = profile_.definitions().shown(profile_.replay().name(info.name));
      arenas_.in_advance.push_back(std::any_of(
          summary_->arenas.begin(), summary_->arenas.end(), [&](const ArenaSummary& arena) {
            return arena.name == name && arena.device == info.place && was_taken_in_advance(arena);
          }));
    }
  }
  /// Whether the host's memory is part of the answer.
  bool has_host(const Changes& changes) const {
    return !summary_->quality.heap_not_read && summary_->quality.heap_sample_bytes == 0 &&
           options_.reading.heap == HeapReading::kAll && !changes.scales.empty();
  }
  std::vector<int32_t> drawn(const Changes& changes) const {
    std::vector<int32_t> all;
    for (const DeviceSummary& device : summary_->devices) all.push_back(device.ordinal);
    if (has_host(changes)) all.push_back(kHost);
    return all;
  }
  /// The replay's peak without the change, not that of the summary: where events were lost that is
  /// what the library counted, with which nothing of the log can be compared.
  WhatIfSum sum_of(WhatIfWatch& changed, int32_t device, const Peak& peak) const {
    WhatIfSum sum = changed.sum_of(device, options_.top);
    sum.curve = changed.take_curve(device);
    if (const ScopeId* const scope = profile_.replay().sites().find_scope(peak.scope)) {
      sum.before_bytes = profile_.sum(*scope).peak;
      sum.before_time_ns = profile_.to_ns(profile_.sum(*scope).peak_ticks);
    }
    if (peak.counted) sum.counted_bytes = peak.bytes;
    sum.is_whole = !peak.counted && is_whole(device, sum.before_bytes);
    if (!sum.is_whole) add_losses(sum);
    return sum;
  }
  bool is_whole(int32_t device, uint64_t replayed) const {
    const Quality& quality = summary_->quality;
    if (quality.exact || (device != kHost && quality.only_heap_inexact)) return true;
    // What contradicts itself may be the heap's alone.
    const gpupeak_counters_page& page = profile_.log().counters();
    const bool is_as_counted = device >= 0 && device < static_cast<int32_t>(page.device_count) &&
                               page.ended != 0 && replayed == page.device[device].total.peak;
    return is_as_counted && std::none_of(quality.warnings.begin(), quality.warnings.end(),
                                         [](const Warning& warning) {
                                           return inexact_by(warning.code) >= Inexact::kAll &&
                                                  warning.code != WarningCode::kContradictions;
                                         });
  }
  void add_losses(WhatIfSum& sum) const {
    for (const Warning& warning : summary_->quality.warnings) {
      if (inexact_by(warning.code) >= Inexact::kAll)
        sum.notes.push_back(code_text(warning.code) + ": " + warning.message);
    }
  }
  void add_note(const WhatIfWatch& changed, WhatIfSum& sum) const {
    if (!changed.is_touched_without_forecast(sum.device)) return;
    const auto why = arenas_.why_not.find(sum.device);
    sum.notes.push_back(fmt::format(
        "its pool is bounded by what is in use of it{}{}",
        sum.most_bytes ? " and what it had reserved" : "",
        why != arenas_.why_not.end() ? ": " + why->second : ", since its rules are not known"));
  }

  const Options& options_;
  const Progress& progress_;
  NeedWatch first_;  // its replay, the profile's, knows it for as long as it lives
  Profile profile_;
  std::optional<NeedWatch> again_;  // `arenas_` points into it
  Summary made_;
  const Summary* summary_ = nullptr;
  Arenas arenas_;
  bool has_last_uses_ = false;
};

/// Each setting that pools of the log have.
std::vector<Changes> settings_of(const Summary& summary) {
  const auto has = [&](bool (*is)(const ArenaSummary&)) {
    return std::any_of(summary.arenas.begin(), summary.arenas.end(), is);
  };
  std::vector<Changes> all;
  if (has(is_torch_pool)) all.emplace_back().expandable_segments = true;
  if (has(is_ort_arena)) all.emplace_back().same_as_requested = true;
  if (has(took_in_advance)) all.emplace_back().no_preallocation = true;
  if (summary.has_uses) all.emplace_back().free_at_last_use = true;
  return all;
}

uint64_t gain(const WhatIf& what_if) {
  const WhatIfSum& sum = what_if.sums.front();
  const uint64_t after = sum.most_bytes.value_or(sum.least_bytes);
  return sum.before_bytes - std::min(sum.before_bytes, after);
}

/// With each of the changes alone the sum of the peak's device, where it gains a hundredth or more.
/// The most first.
std::vector<WhatIf> that_lower(const Peak& peak, const std::vector<Changes>& all, Before& before,
                               WithCurves curves = WithCurves::kNo) {
  constexpr uint64_t kWorthALine = 100;  // a hundredth of the peak
  std::vector<WhatIf> results;
  for (const Changes& changes : all) {
    WhatIf result = before.with(changes, curves);
    std::erase_if(result.sums, [&](const WhatIfSum& sum) {
      return ScopeKey::device(sum.device).text() != peak.scope;
    });
    if (result.sums.empty()) continue;
    const uint64_t worth = (result.sums.front().before_bytes + kWorthALine - 1) / kWorthALine;
    if (gain(result) > 0 && gain(result) >= worth) results.push_back(std::move(result));
  }
  std::stable_sort(results.begin(), results.end(),
                   [](const WhatIf& a, const WhatIf& b) { return gain(a) > gain(b); });
  return results;
}

uint64_t requests_of_pools(const Summary& summary) {
  uint64_t requests = 0;
  for (const ArenaSummary& arena : summary.arenas) {
    if (arena.device) requests += arena.alloc_count;
  }
  return requests;
}

}  // namespace

WhatIf what_if(const std::string& path, const Changes& changes, const Options& options,
               const Progress& progress, WithCurves curves) {
  Options reading = options;
  if (changes.scales.empty()) reading.reading.heap = HeapReading::kNone;
  Before before(path, reading, progress);
  WhatIf result = before.with(changes, curves);
  for (size_t i = 0; i < result.matched.size(); ++i) {
    if (result.matched[i] > 0) continue;
    throw UsageError(fmt::format("'{}' matches no block's function, site, tag or phase",
                                 escape(changes.scales[i].pattern)));
  }
  return result;
}

std::vector<WhatIf> what_would_lower(const std::string& path, const Options& options,
                                     const Progress& progress, WithCurves curves) {
  constexpr size_t kMostSites = 4;
  Options reading = options;
  reading.reading.heap = HeapReading::kNone;
  Before before(path, reading, progress);
  const Peak* const peak = largest_device_peak(before.summary());
  if (peak == nullptr) return {};
  std::vector<Changes> sites;
  for (const Holder& holder : peak->holders) {
    if (holder.kind == "device.idle" || holder.kind == "device.not_recorded" ||
        sites.size() == kMostSites)
      continue;
    // One that has several kinds of memory has a row of each.
    const bool is_known = std::any_of(sites.begin(), sites.end(), [&](const Changes& site) {
      return site.scales.front().pattern == holder.title;
    });
    if (!is_known && holder.title.find_first_of("*?") == std::string::npos)
      sites.emplace_back().scales.push_back({holder.title, 0});
  }
  // What can be set comes before what would have to be written.
  std::vector<WhatIf> results = that_lower(*peak, settings_of(before.summary()), before, curves);
  for (WhatIf& site : that_lower(*peak, sites, before, curves)) results.push_back(std::move(site));
  return results;
}

bool add_lowering(Summary& summary, const std::string& path, const Options& options,
                  const Progress& progress) {
  constexpr uint64_t kMostRequests = 100'000;
  // Whose pools they are cannot be seen where their names are hashes.
  if (summary.confidential && !summary.arenas.empty()) return false;
  const std::vector<Changes> settings = settings_of(summary);
  const Peak* const peak = largest_device_peak(summary);
  if (settings.empty() || peak == nullptr) {
    summary.lowering.emplace();
    return false;
  }
  if (peak->counted || summary.quality.log_end == LogEnd::kRunning) return false;
  Lowering lowering{peak->scope, peak->bytes, 0, {}};
  if (const uint64_t requests = requests_of_pools(summary); requests > kMostRequests) {
    lowering.untried_requests = requests;
    summary.lowering = std::move(lowering);
    return false;
  }
  // Nothing is said of code, so that no names are looked up.
  Options reading;
  reading.top = 0;
  reading.reading.sanitizer = options.reading.sanitizer;
  reading.reading.search.files = false;
  reading.reading.rules = {{"none"}, {}, {}};
  reading.reading.heap = HeapReading::kNone;
  Before before(path, reading, progress, &summary);
  if (!before.has(*peak)) return true;
  for (const WhatIf& what_if : that_lower(*peak, settings, before)) {
    const WhatIfSum& sum = what_if.sums.front();
    lowering.rows.push_back(
        {what_if.changes.settings().front(), sum.least_bytes, sum.most_bytes, sum.time_ns});
  }
  summary.lowering = std::move(lowering);
  return true;
}

}  // namespace gpupeak::collector
