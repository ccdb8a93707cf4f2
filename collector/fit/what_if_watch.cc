#include "collector/fit/what_if_watch.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "collector/log/kinds.h"
#include "collector/text/name_match.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

using Asked = ArenaForecast::Asked;

/// What each course assumes that was asked for.
constexpr std::array kAsked{Asked::kLeast, Asked::kMost, Asked::kLikely, Asked::kMixed,
                            Asked::kMixed};

uint64_t times(uint64_t bytes, double factor) {
  return factor == 1 ? bytes
                     : static_cast<uint64_t>(std::floor(static_cast<double>(bytes) * factor));
}

std::string key_of(int32_t device) {
  return (device == WhatIfWatch::kHost ? ScopeKey::host() : ScopeKey::device(device)).text();
}

/// The least that may have been asked for a block: an arena gives a whole piece if the rest is not
/// worth splitting off, and with a change it may find a smaller one.
uint64_t least_asked(std::string_view arena, uint64_t bytes) {
  constexpr uint64_t kTorchRest = 1u << 20, kBfcRest = 128u << 20;
  if (arena == "PyTorch") return bytes > kTorchRest ? bytes - kTorchRest : bytes;
  if (arena.starts_with("ONNX Runtime") || arena.starts_with("XLA"))
    return bytes - std::min(bytes / 2, kBfcRest);
  return bytes;
}

}  // namespace

void WhatIfWatch::on_step(std::span<const PeakFinder::Change> step) {
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

void WhatIfWatch::before(const Event& event) {
  while (!due_.empty() && due_.begin()->first < event.ticks) {
    const uint64_t ticks = due_.begin()->first;
    for (; !due_.empty() && due_.begin()->first == ticks; due_.erase(due_.begin()))
      let_go(due_.begin()->second);
    apply(ticks);
  }
}

void WhatIfWatch::on_block_alloc(const DeviceBlock& block) {
  const size_t number = driver_blocks_++;
  const LastUseTimes::Block& uses = arenas_.last_uses.of_driver(number);
  const uint64_t id = block.alloc.id;
  const bool is_shared_out = arenas_.shared_out.contains(id);
  if (changes_.one_for_two && number == changes_.one_for_two->first) both_ = block;
  const bool is_second = changes_.one_for_two && number == changes_.one_for_two->second;
  if (is_second) second_id_ = id;
  if (is_second || (changes_.without_unused && uses.was_never_used() && !is_shared_out)) {
    gone_.insert(id);
    return;
  }
  if (changes_.take_at_first_use && uses.first != LastUseTimes::kNotKnown && !is_shared_out) {
    may_go_[id] = block;
    due_.emplace(uses.first, Due{id, nullptr, 0, 0, true});
    return;
  }
  count(block, +1);
  if (changes_.free_at_last_use && uses.last != LastUseTimes::kNotKnown && !is_shared_out) {
    may_go_[id] = block;
    due_.emplace(uses.last, Due{id, nullptr, 0, 0});
  }
}

void WhatIfWatch::on_block_free(const DeviceBlock& block) {
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

void WhatIfWatch::on_arena_block(const ArenaBlockChange& change) {
  const ArenaTable::Holder& holder = replay().arenas().holder(change.holder);
  const ArenaTable::Arena& info = replay().arenas().arenas()[holder.arena];
  if (change.in_use) last_use_ = arenas_.last_uses.of_arenas(arena_blocks_++);
  // Blocks in no segment, and of arenas that were cut out of the program's own block, do not count
  // here.
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

void WhatIfWatch::on_arena_alloc(const ArenaAllocEvent& alloc, uint32_t /*stack*/) {
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

void WhatIfWatch::on_arena_free(const ArenaFreeEvent& free) {
  Row* const row = forecast_of(free.arena);
  if (row == nullptr) return;
  for (ArenaForecast& forecast : row->forecasts) forecast.take();
  is_changed_ = true;
}

void WhatIfWatch::after(const Event& event) {
  if (is_changed_ || !changed_[kLow].empty()) apply(event.ticks);
  for (auto& [device, drawn] : drawn_) drawn.curve.set(event.ticks, point_of(device, drawn));
}

void WhatIfWatch::draw(const std::vector<int32_t>& devices) {
  for (const int32_t device : devices) drawn_[device].key = key_of(device);
}

void WhatIfWatch::finish() {
  for (PeakFinder& peaks : peaks_) peaks.finish();
}

WhatIfSum WhatIfWatch::sum_of(int32_t device, size_t top) const {
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

std::vector<WhatIfPoint> WhatIfWatch::take_curve(int32_t device) {
  const auto drawn = drawn_.find(device);
  if (drawn == drawn_.end()) return {};
  std::vector<WhatIfPoint> points = std::move(drawn->second.curve).points();
  for (WhatIfPoint& point : points) point.time = profile_.to_ns(static_cast<uint64_t>(point.time));
  return points;
}

bool WhatIfWatch::is_touched_without_forecast(int32_t device) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const auto& entry) {
    return replay_arena(entry.first).place == device && !entry.second.is_forecast() &&
           (entry.second.is_touched || is_without_advance(entry.first));
  });
}

void WhatIfWatch::apply(uint64_t ticks) {
  is_changed_ = false;
  for (auto& [number, row] : rows_) set_idle(number, row);
  for (auto& [device, bytes] : segments_) set_unclaimed(device, bytes);
  for (size_t course = 0; course < kCourses; ++course) {
    if (!changed_[course].empty()) peaks_[course].apply(changed_[course], ticks);
    changed_[course].clear();
  }
}

WhatIfPoint WhatIfWatch::point_of(int32_t device, Drawn& drawn) const {
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

const ArenaTable::Arena& WhatIfWatch::replay_arena(size_t row) const {
  return profile_.replay().arenas().arenas()[row];
}

bool WhatIfWatch::is_without_advance(size_t row) const {
  return changes_.no_preallocation && row < arenas_.in_advance.size() && arenas_.in_advance[row];
}

bool WhatIfWatch::takes_less_in_advance(int32_t device) const {
  const auto& arenas = profile_.replay().arenas().arenas();
  for (size_t number = 0; number < arenas.size(); ++number) {
    if (arenas[number].place == device && is_without_advance(number)) return true;
  }
  return false;
}

WhatIfWatch::Row& WhatIfWatch::row_of(size_t number) {
  static_assert(kAsked.size() == kCourses);
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

bool WhatIfWatch::gives_back(const ArenaRequests& history) {
  return std::any_of(history.steps().begin(), history.steps().end(),
                     [](const auto& step) { return step.what == ArenaRequests::What::kEmpty; });
}

WhatIfWatch::Row* WhatIfWatch::forecast_of(uint64_t arena) {
  const int32_t place = replay().arenas().place_of(arena);
  if (!arenas_.histories.contains(place)) return nullptr;
  const size_t number = replay().arenas().holder(last_holder_).arena;
  const auto row = rows_.find(number);
  return row != rows_.end() && row->second.is_forecast() ? &row->second : nullptr;
}

GroupId WhatIfWatch::group_of(int32_t device, Row::What what, uint64_t number) {
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

void WhatIfWatch::change(size_t course, GroupId group, int64_t bytes, int16_t count) {
  if (bytes == 0 && count == 0) return;
  changed_[course].push_back({group, bytes, count, count > 0});
}

void WhatIfWatch::change_all(GroupId group, int64_t bytes, int16_t count) {
  for (size_t course = 0; course < kCourses; ++course) change(course, group, bytes, count);
}

void WhatIfWatch::count(const DeviceBlock& block, int sign) {
  const SiteContext& context = replay().sites().context_of(block.group);
  if (!is_device_kind(context.kind) || context.device < 0 || !counts_into_sum(context.kind)) return;
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

void WhatIfWatch::hold(Row& row, uint64_t address, HolderId holder,
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

void WhatIfWatch::drop(Row& row, uint64_t address) {
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

void WhatIfWatch::let_go(const Due& due) {
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

int32_t WhatIfWatch::place_of(HolderId holder) const {
  return replay().arenas().arenas()[replay().arenas().holder(holder).arena].place;
}

uint64_t WhatIfWatch::idle_of(size_t number, const Row& row, size_t course) const {
  uint64_t reserved = 0;
  if (row.is_forecast()) {
    reserved = row.forecasts[course].reserved();
  } else if (!(row.is_touched || is_without_advance(number)) || course == kHigh) {
    reserved = replay().arenas().level(number).reserved;
  }
  return reserved - std::min(reserved, row.in_use[course]);
}

void WhatIfWatch::set_idle(size_t number, Row& row) {
  const int32_t device = replay_arena(number).place;
  for (size_t course = 0; course < kCourses; ++course) {
    const uint64_t idle = idle_of(number, row, course);
    if (idle == row.idle[course]) continue;
    change(course, group_of(device, Row::kIdle, number),
           static_cast<int64_t>(idle) - static_cast<int64_t>(row.idle[course]), 0);
    row.idle[course] = idle;
  }
}

void WhatIfWatch::set_unclaimed(int32_t device, uint64_t segments) {
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

std::string WhatIfWatch::title_of(const Key& key) const {
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

std::string WhatIfWatch::arena_title(HolderId holder) const {
  const ArenaTable::Holder& of = profile_.replay().arenas().holder(holder);
  return of.name != 0 ? profile_.definitions().shown(profile_.replay().name(of.name))
                      : profile_.titles().title(of.stack);
}

bool WhatIfWatch::is_bounded(int32_t device) const {
  return std::none_of(rows_.begin(), rows_.end(), [&](const auto& entry) {
    const auto& [number, row] = entry;
    return replay_arena(number).place == device && !row.is_forecast() &&
           (row.grows || is_without_advance(number));
  });
}

uint64_t WhatIfWatch::beside(size_t course, GroupId group, Beside side) const {
  const Key& key = keys_[group];
  if (key.what != Row::kIdle) return 0;
  const uint64_t off = rows_.at(key.number).may_be_off;
  const uint64_t idle = peaks_[course].at_peak(group, scopes_.at(key.device)).bytes;
  return side == Beside::kMore ? off : std::min(off, idle);
}

uint64_t WhatIfWatch::beside(size_t course, int32_t device, Beside side) const {
  uint64_t sum = 0;
  for (GroupId group{0}; group < keys_.size(); ++group) {
    if (keys_[group].device == device) sum += beside(course, group, side);
  }
  return sum;
}

void WhatIfWatch::add_holders(size_t course, int32_t device, Beside side, size_t top,
                              WhatIfSum& sum) const {
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
  for (auto& [title, row] : by_title) sum.holders.push_back(std::move(row));
  std::stable_sort(sum.holders.begin(), sum.holders.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  for (; sum.holders.size() > top; sum.holders.pop_back())
    sum.other_bytes += sum.holders.back().bytes;
}

namespace {

bool is_same(const WhatIfPoint& a, const WhatIfPoint& b) {
  return a.before == b.before && a.least == b.least && a.most == b.most;
}

void raise(WhatIfPoint& highest, const WhatIfPoint& other) {
  highest.before = std::max(highest.before, other.before);
  highest.least = std::max(highest.least, other.least);
  highest.most = std::max(highest.most, other.most);
}

}  // namespace

void ChangeCurve::set(uint64_t ticks, const WhatIfPoint& point) {
  if (!points_.empty() && is_same(points_.back(), point)) return;
  points_.push_back(point);
  points_.back().time = static_cast<int64_t>(ticks);
  if (points_.size() == kMostPoints) shorten();
}

void ChangeCurve::shorten() {
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

std::vector<WhatIfPoint> ChangeCurve::points() && {
  return std::move(points_);
}

ScaleFinder::Found ScaleFinder::find(uint32_t stack, PhaseId phase,
                                     const std::vector<std::string>& names) {
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
    const bool matches = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return glob_match(scales_[i].pattern, text);
    });
    found.by[i] = matches;
    if (matches) found.factor *= scales_[i].factor;
  }
  return found;
}

double ScaleFinder::of_group(GroupId group) {
  const auto [entry, is_new] = by_group_.try_emplace(group);
  if (is_new) {
    const Site& site = profile_.replay().sites().info(group);
    const SiteContext& context = profile_.replay().sites().context_of(group);
    entry->second =
        find(site.stack, context.phase, {profile_.tagger().name(profile_.tagger().tag(group))});
  }
  return entry->second.factor;
}

double ScaleFinder::of_holder(HolderId holder) {
  const auto [entry, is_new] = by_holder_.try_emplace(holder);
  if (is_new) {
    const ArenaTable::Holder& of = profile_.replay().arenas().holder(holder);
    std::vector<std::string> names{profile_.tagger().name(profile_.tagger().tag(of))};
    if (of.name != 0) names.emplace_back(profile_.replay().name(of.name));
    entry->second = find(of.stack, of.cause.phase, names);
  }
  return entry->second.factor;
}

void ScaleFinder::note(const Found& found) {
  for (size_t i = 0; i < found.by.size(); ++i) matched_[i] += found.by[i];
}

}  // namespace gpupeak::collector
