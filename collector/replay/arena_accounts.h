// Keeps the rows and sums of arenas. A row stands for all arenas of one name in one place. Each
// piece of memory has a holder: a name or a stack that uses it, a row in which it is idle, or
// somebody outside of all arenas. Changes that happen at once are gathered and applied as one step.
// It is the part of ArenaTable that knows no addresses.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/log/event.h"
#include "collector/replay/peak_finder.h"
#include "collector/replay/troubles.h"

namespace gpupeak::collector {

// Tells why arenas are as large as they are. Each segment has a cause: the call that took it from
// the driver, as a group of Replay's. It also has the bytes that the first request in it needed.
// What an arena has reserved is at each instant the sum of its causes, to the byte.
//
// Each arena also has a list of the steps by which it became larger than ever before. Their bytes
// add up to the most that it had reserved. ArenaTable and PoolReserves keep one each.
//
//   take 20 (A), take 10 (B), give back 20 (A), take 25 (A):  reserved 20 30 10 35
//   growths: A 20, B 10, A 5        causes at 35: A 25, B 10

class ArenaCauses {
 public:
  /// A segment that an arena takes or gives back.
  struct Segment {
    GroupId taken_by = kNoGroup;  ///< Replay's; kNoGroup: it is not known to be of the driver
    uint64_t bytes = 0;
    uint64_t asked_bytes = 0;  ///< of these, what the request needed
  };
  /// All segments of an arena that were taken by one group.
  struct Cause {
    size_t arena = 0;
    GroupId taken_by = kNoGroup;
    Segment largest;            ///< the largest segment of all
    uint64_t in_use_bytes = 0;  ///< what the arena had in use when that one was taken
    uint64_t ticks = 0;         ///< when that one was taken
  };
  /// The arena became larger than ever before. Several such steps in a row with one cause are one.
  struct Growth {
    GroupId taken_by = kNoGroup;
    uint64_t ticks = 0;           ///< of the first step
    uint64_t bytes = 0;           ///< by how much it became larger than ever before
    uint64_t asked_bytes = 0;     ///< what the requests needed
    uint64_t in_use_bytes = 0;    ///< before the first step
    uint64_t reserved_bytes = 0;  ///< after the last one
  };

  void take(size_t arena, const Segment& segment, uint64_t in_use_bytes, uint64_t ticks) {
    const GroupId group = group_of(arena, segment.taken_by);
    const ScopeId scope = scopes_.at(arena);
    const uint64_t largest_before = peaks_.scope(scope).peak;
    peaks_.add(group, segment.bytes, ticks);
    Cause& cause = causes_[group];
    if (segment.bytes > cause.largest.bytes) {
      cause.largest = segment;
      cause.in_use_bytes = in_use_bytes;
      cause.ticks = ticks;
    }
    const uint64_t largest = peaks_.scope(scope).peak;
    if (largest == largest_before) return;
    std::vector<Growth>& growths = growths_[arena];
    if (growths.empty() || growths.back().taken_by != segment.taken_by)
      growths.push_back({segment.taken_by, ticks, 0, 0, in_use_bytes, 0});
    Growth& growth = growths.back();
    growth.bytes += largest - largest_before;
    growth.asked_bytes += segment.asked_bytes;
    growth.reserved_bytes = largest;
  }
  /// Gives back a segment that was taken.
  void give_back(size_t arena, const Segment& segment) {
    peaks_.remove(group_of(arena, segment.taken_by), segment.bytes);
  }
  /// Call it after the last change. Throws std::logic_error if the causes of an arena do not add
  /// up.
  void finish() { peaks_.finish(); }

  /// By the number that at_largest() takes: the cause's group.
  const std::vector<Cause>& causes() const { return causes_; }
  /// What a cause had when its arena was largest. Call it after finish().
  PeakFinder::AtPeak at_largest(GroupId cause) const {
    return peaks_.at_peak(cause, scopes_.at(causes_[cause].arena));
  }
  /// In the order of time.
  const std::vector<Growth>& growths(size_t arena) const {
    static const std::vector<Growth> kNone;
    const auto found = growths_.find(arena);
    return found == growths_.end() ? kNone : found->second;
  }
  /// The sum of the arena's causes now.
  uint64_t reserved(size_t arena) const {
    const auto scope = scopes_.find(arena);
    return scope == scopes_.end() ? 0 : peaks_.scope(scope->second).current;
  }

 private:
  GroupId group_of(size_t arena, GroupId taken_by) {
    const auto [scope, is_new_arena] = scopes_.try_emplace(arena);
    if (is_new_arena) scope->second = peaks_.add_scope();
    const auto [group, is_new] = groups_.try_emplace({arena, taken_by});
    if (is_new) {
      group->second = peaks_.add_group(std::array{scope->second});
      causes_.push_back({arena, taken_by, {}, 0, 0});
    }
    return group->second;
  }

  PeakFinder peaks_;
  std::map<size_t, ScopeId> scopes_;  // by arena
  std::map<std::pair<size_t, GroupId>, GroupId> groups_;
  std::vector<Cause> causes_;
  std::map<size_t, std::vector<Growth>> growths_;
};

// What the driver's memory pools have reserved, by device, and which requests made them do so. A
// pool that is destroyed while it has live blocks keeps its memory until the last of them is freed;
// by then its handle may name a new pool. Replay calls it.
//
// The log has what a pool had reserved after each call that may have changed it. If that grew and
// one request came since the reading before, that request is the cause. No event says what a pool
// gives back. But it must still have what it took for blocks that are live. What is left beyond
// that has no known cause.
//
//   request 40 (A), reads 64; request 8 (B), reads 64: served from what there was; request 100 (C),
//   reads 192; A is freed, reads 160     causes: A 64, C 128; then C 128, not known 32

class PoolReserves {
 public:
  /// The number of one pool; it is never used for another.
  using Id = uint32_t;
  static constexpr Id kNone = 0;
  /// Causes that are no group of Replay's.
  /// No request or several ones came since the last reading.
  static constexpr GroupId kSeveral = kNoGroup;
  /// Memory of unknown cause that was left when some was given back.
  static constexpr GroupId kLeft{kNoGroup - 1};

  struct Block {
    uint64_t id = 0;
    GroupId group = kNoGroup;
    uint64_t bytes = 0;
  };
  /// When the pools of a device had reserved most.
  struct Largest {
    uint64_t ticks = 0;
    uint64_t reserved_bytes = 0, in_use_bytes = 0;
  };
  using IsLive = std::function<bool(uint64_t block)>;

  void on_event(const PoolEvent& event, uint64_t ticks, const IsLive& is_live) {
    const Id id = id_of(event.pool);
    Pool& pool = pools_[id];
    if (event.event == GPUPEAK_POOL_DESTROYED) {
      by_handle_.erase(event.pool);
      pool.destroyed = true;
      if (pool.blocks > 0) return;
      give_back_all(pool);
      change(pool, pool.device, 0);
      pools_.erase(id);
      return;
    }
    if (event.device != pool.device) give_back_all(pool);
    const uint64_t before = event.device == pool.device ? pool.reserved : 0;
    change(pool, event.device, event.reserved);
    if (pool.device >= 0 && event.reserved > before)
      grow(pool, event.reserved - before, ticks);
    else if (pool.device >= 0 && event.reserved < before)
      shrink(pool, event.reserved, ticks, is_live);
    pool.requests = 0;
    if (pool.device < 0) return;
    const uint64_t now = reserved_[pool.device].current;
    Largest& largest = largest_[pool.device];
    if (now > largest.reserved_bytes) largest = {ticks, now, in_use_of(pool.device)};
  }
  /// A block is allocated from the pool that has this handle now; 0: from none. The caller keeps
  /// the result with the block.
  Id allocated(uint64_t handle, const Block& block) {
    if (handle == 0) return kNone;
    const Id id = id_of(handle);
    Pool& pool = pools_[id];
    ++pool.blocks;
    pool.in_use += block.bytes;
    pool.last = block;
    ++pool.requests;
    return id;
  }
  void freed(Id id, uint64_t bytes) {
    const auto entry = pools_.find(id);
    if (entry == pools_.end() || entry->second.blocks == 0) return;
    Pool& pool = entry->second;
    pool.in_use -= std::min(pool.in_use, bytes);
    if (--pool.blocks > 0 || !pool.destroyed) return;
    give_back_all(pool);
    change(pool, pool.device, 0);
    pools_.erase(entry);
  }
  /// The free of a block failed.
  void revived(Id id, uint64_t bytes) {
    const auto entry = pools_.find(id);
    if (entry == pools_.end()) return;
    ++entry->second.blocks;
    entry->second.in_use += bytes;
  }
  void finish() { causes_.finish(); }

  /// By device; -1: all devices.
  const std::map<int32_t, Gauge>& reserved() const { return reserved_; }
  /// The pools of each device together are one arena in it, by ordinal.
  const ArenaCauses& causes() const { return causes_; }
  const std::map<int32_t, Largest>& largest() const { return largest_; }

 private:
  struct Segment {
    ArenaCauses::Segment taken;
    uint64_t block = 0;  ///< for which it was taken; 0: for none, or not known
  };
  struct Pool {
    int32_t device = -1;
    uint64_t reserved = 0, blocks = 0, in_use = 0;
    bool destroyed = false;
    std::vector<Segment> segments;  ///< only if it is a device's pool; they add up to `reserved`
    Block last;                     ///< the last request since the last reading
    uint64_t requests = 0;          ///< how many since then
  };
  Id id_of(uint64_t handle) {
    const auto [entry, added] = by_handle_.try_emplace(handle, last_ + 1);
    if (added) pools_[++last_];
    return entry->second;
  }
  void change(Pool& pool, int32_t device, uint64_t reserved) {
    const auto move = [this](int32_t where, uint64_t by) {
      if (where < 0 || by == 0) return;  // a pool of host memory
      for (const int32_t scope : {-1, where}) {
        Gauge& gauge = reserved_[scope];
        gauge.set(gauge.current + by);
      }
    };
    move(pool.device, 0 - pool.reserved);
    move(device, reserved);
    pool.device = device;
    pool.reserved = reserved;
  }
  void grow(Pool& pool, uint64_t bytes, uint64_t ticks) {
    Segment segment{{kSeveral, bytes, 0}, 0};
    uint64_t in_use = in_use_of(pool.device);
    if (pool.requests == 1) {
      segment = {{pool.last.group, bytes, std::min(bytes, pool.last.bytes)}, pool.last.id};
      in_use -= std::min(in_use, pool.last.bytes);
    }
    causes_.take(static_cast<size_t>(pool.device), segment.taken, in_use, ticks);
    pool.segments.push_back(segment);
  }
  /// The pool has `bytes` left.
  void shrink(Pool& pool, uint64_t bytes, uint64_t ticks, const IsLive& is_live) {
    const auto must_stay = [&](const Segment& segment) {
      return segment.block != 0 && is_live(segment.block);
    };
    uint64_t kept = 0;
    for (const Segment& segment : pool.segments)
      kept += must_stay(segment) ? segment.taken.bytes : 0;
    // If live blocks seem to need more than is left, nothing is known: a pool may give back what
    // lies behind a block in its segment.
    const bool knows_some = kept <= bytes;
    std::vector<Segment> left;
    for (const Segment& segment : pool.segments) {
      if (knows_some && must_stay(segment)) {
        left.push_back(segment);
      } else {
        causes_.give_back(static_cast<size_t>(pool.device), segment.taken);
      }
    }
    pool.segments = std::move(left);
    const uint64_t rest = bytes - (knows_some ? kept : 0);
    if (rest == 0) return;
    pool.segments.push_back({{kLeft, rest, 0}, 0});
    causes_.take(static_cast<size_t>(pool.device), pool.segments.back().taken,
                 in_use_of(pool.device), ticks);
  }
  void give_back_all(Pool& pool) {
    for (const Segment& segment : pool.segments)
      causes_.give_back(static_cast<size_t>(pool.device), segment.taken);
    pool.segments.clear();
  }
  uint64_t in_use_of(int32_t device) const {
    uint64_t sum = 0;
    for (const auto& [id, pool] : pools_) sum += pool.device == device ? pool.in_use : 0;
    return sum;
  }

  std::unordered_map<uint64_t, Id> by_handle_;
  std::unordered_map<Id, Pool> pools_;
  Id last_ = kNone;
  std::map<int32_t, Gauge> reserved_;
  std::map<int32_t, Largest> largest_;
  ArenaCauses causes_;
};

// Which bytes of some addresses blocks have used so far. Ranges that touch become one, so there are
// no more of them than gaps between used bytes.
//
//   add(10, 20) = 10    add(15, 30) = 10    remove(0, 12) = 2    {12..30}

class UsedRanges {
 public:
  /// Adds the bytes [begin, end). Returns how many were not there.
  uint64_t add(uint64_t begin, uint64_t end) {
    if (begin >= end) return 0;
    auto range = ranges_.upper_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second >= begin) --range;
    if (range != ranges_.end() && range->first <= begin && range->second >= end) return 0;
    uint64_t fresh = end - begin;
    uint64_t joined_begin = begin, joined_end = end;
    while (range != ranges_.end() && range->first <= end) {
      fresh -= std::min(range->second, end) - std::max(range->first, begin);
      joined_begin = std::min(joined_begin, range->first);
      joined_end = std::max(joined_end, range->second);
      range = ranges_.erase(range);
    }
    ranges_.emplace(joined_begin, joined_end);
    return fresh;
  }
  /// Removes the bytes [begin, end). Returns how many were there.
  uint64_t remove(uint64_t begin, uint64_t end) {
    uint64_t used = 0;
    auto range = ranges_.upper_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second > begin) --range;
    while (range != ranges_.end() && range->first < end) {
      const auto [from, to] = *range;
      used += std::min(to, end) - std::max(from, begin);
      range = ranges_.erase(range);
      if (from < begin) ranges_.emplace(from, begin);
      if (to > end) ranges_.emplace(end, to);
    }
    return used;
  }

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin to end; neither overlap nor touch
};

/// Who holds memory that arenas share out, as an index of ArenaAccounts::holders(). A type of its
/// own, since a GroupId is a group of Replay's.
enum class HolderId : uint32_t {};
inline constexpr HolderId kNoHolder{UINT32_MAX};
/// A part of a block that is in use.
struct PartOfBlock {
  uint64_t address = 0, bytes = 0;
  HolderId holder = kNoHolder;
};
/// The holder's group in ArenaAccounts::peaks(): holders and groups have the same numbers.
constexpr GroupId as_group(HolderId holder) {
  return GroupId(static_cast<uint32_t>(holder));
}
constexpr HolderId as_holder(GroupId group) {
  return HolderId{static_cast<uint32_t>(group)};
}

class ArenaAccounts {
 public:
  /// Where memory lies: a device's ordinal or one of these.
  static constexpr int32_t kHost = -1;
  static constexpr int32_t kNowhere = -2;  ///< in no block that the log knows
  static constexpr int32_t kAllDevices = -1;

  /// Where idle memory lies. The log does not tell of which stream a block is.
  enum class IdleIn : uint8_t {
    kSegment,  ///< in a segment all of which is idle, or a part of what an arena said is its own
    kHole,     ///< beside blocks in use of the same segment
    kGraph,    ///< in a segment that is kept for a CUDA graph
  };
  static constexpr size_t kIdleIns = 3;
  using IdleHolders = std::array<std::array<std::array<HolderId, 2>, 2>, kIdleIns>;
  static constexpr IdleHolders no_idle_holders() {
    IdleHolders all{};
    for (auto& in : all) in = {{{kNoHolder, kNoHolder}, {kNoHolder, kNoHolder}}};
    return all;
  }

  /// Arenas of one name in one place.
  struct Arena {
    uint32_t name = 0;  ///< Replay::name()
    int32_t place = kNowhere;
    uint64_t count = 0;           ///< how many were created
    uint64_t capacity_bytes = 0;  ///< of the live arenas that said how large they are
    uint64_t largest_capacity_bytes = 0;
    uint64_t alloc_count = 0;
    uint64_t failed_count = 0;                        ///< refused requests
    uint64_t largest_block = 0, largest_refused = 0;  ///< in bytes; 0: none
    ScopeId scope{};                                  ///< in use
    ScopeId reserved_scope{};
    uint64_t reserved_at_peak = 0;  ///< when most was in use
    uint64_t largest_idle_at_peak = 0;
    uint64_t told = 0;            ///< events with the allocator's own totals
    uint64_t contradictions = 0;  ///< of these, how many say other than our sums
    uint64_t lost_bytes = 0;      ///< of blocks whose memory was freed while they were in use
    // By IdleIn; then: used before, never used; then: not in its device's sum, in it.
    IdleHolders idle = no_idle_holders();
    UsedRanges used;
    bool at_peak = false;  // nothing has changed since the last new maximum
    // Blocks that are part of the arena's memory, begin and end: they never overlap.
    std::map<uint64_t, uint64_t> placed;
    /// Of an attached program: it had handed out blocks before the attach, or still does from
    /// memory of that time. So what it has reserved is not known.
    bool has_older = false;

    /// Whether the row has had no block. It also stays so if the arenas that were created in it
    /// turned out to lie in another place.
    bool is_unused() const { return place == kNowhere && alloc_count == 0 && failed_count == 0; }
  };
  /// In which context a block was handed out.
  struct Cause {
    uint32_t phase = 0;  ///< PhaseTree's number
    /// Replay::name() of what the program says that the block is for; 0: it says nothing.
    uint32_t tag = 0;
    auto operator<=>(const Cause&) const = default;
  };
  enum class What : uint8_t { kInUse, kIdle, kOutside };
  /// Who holds bytes. In use: the name that the arena gave the block or, without one, the stack
  /// that asked for it. Outside of all arenas: a group of Replay's.
  struct Holder {
    What what = What::kInUse;
    size_t arena = 0;
    uint32_t name = 0;
    uint32_t stack = 0;
    Cause cause{};
    GroupId outside = kNoGroup;
    int32_t device = -1;                ///< of memory outside of arenas
    bool never_used = false;            ///< of idle memory: no block has used it so far
    bool counted = true;                ///< in its device's sum
    IdleIn idle_in = IdleIn::kSegment;  ///< of idle memory
    auto operator<=>(const Holder&) const = default;
  };
  /// One arena at one instant.
  struct Level {
    uint64_t in_use = 0, reserved = 0;
    uint64_t idle() const { return reserved - in_use; }
  };

  /// In the order of their first creation.
  const std::vector<Arena>& arenas() const { return arenas_; }
  Level level(size_t arena) const {
    return {peaks_.scope(arenas_[arena].scope).current,
            peaks_.scope(arenas_[arena].reserved_scope).current};
  }
  /// By HolderId.
  const std::vector<Holder>& holders() const { return holders_; }
  const Holder& holder(HolderId id) const { return holders_[static_cast<size_t>(id)]; }
  uint64_t live_bytes(HolderId id) const { return peaks_.group(as_group(id)).live_bytes; }

  const PeakFinder& peaks() const { return peaks_; }
  /// The sum of what the driver has handed out of a device, by holders. nullptr: it never handed
  /// out anything.
  const ScopeId* device_scope(int32_t device) const { return value_in(driver_scopes_, device); }
  /// Whether the holder counts into device_scope(device).
  bool is_of_device(HolderId id, int32_t device) const {
    const Holder& held = holder(id);
    const int32_t of = held.what == What::kOutside ? held.device : arenas_[held.arena].place;
    return held.counted && of == device;
  }
  /// The sum of what all arenas have in use of a device's memory; kAllDevices: of all devices.
  /// nullptr: there are no such arenas.
  const ScopeId* in_arenas_scope(int32_t device) const {
    return value_in(in_arenas_scopes_, device);
  }

 protected:
  size_t row_for(uint32_t name, int32_t place) {
    auto known = by_name_.find({name, place});
    // A new arena whose place is not known is most likely like its namesakes in the host's memory.
    if (known == by_name_.end() && place == kNowhere) known = by_name_.find({name, kHost});
    if (known != by_name_.end()) return known->second;
    if (arenas_.size() == kMostRows) return kMostRows - 1;
    Arena& fresh = arenas_.emplace_back();
    fresh.name = name;
    fresh.place = place;
    fresh.scope = peaks_.add_scope();
    fresh.reserved_scope = peaks_.add_scope();
    by_name_.emplace(std::pair{name, place}, arenas_.size() - 1);
    return arenas_.size() - 1;
  }
  /// The row for blocks of `row`'s arenas that lie in `place`. A row that has had no block yet
  /// moves to that place. So does a row of an attached program whose blocks lay in memory from
  /// before.
  size_t row_in(size_t row, int32_t place) {
    Arena& arena = arenas_[row];
    if (place == kNowhere || arena.place == place) return row;
    if (arena.place == kNowhere && (arena.alloc_count == 0 || arena.has_older) &&
        !by_name_.contains({arena.name, place})) {
      by_name_.erase({arena.name, kNowhere});
      by_name_.emplace(std::pair{arena.name, place}, row);
      arena.place = place;
      return row;
    }
    return row_for(arena.name, place);
  }

  HolderId outside(GroupId group, int32_t device) {
    return id_of({.what = What::kOutside, .outside = group, .device = device});
  }
  /// `counted`: in its device's sum.
  HolderId idle(size_t row, bool counted, IdleIn in) { return idle(row, counted, in, false); }
  HolderId never_used(size_t row, bool counted, IdleIn in) { return idle(row, counted, in, true); }
  HolderId user(size_t row, bool counted, uint32_t name, uint32_t stack, const Cause& cause) {
    return id_of({.what = What::kInUse,
                  .arena = row,
                  .name = name,
                  .stack = name != 0 ? 0 : stack,
                  .cause = cause,
                  .counted = counted});
  }

  // One step.
  void change(HolderId holder, int64_t bytes, int16_t count = 0, bool allocates = false) {
    changes_.push_back({as_group(holder), bytes, count, allocates});
  }
  /// The changes that apply() will apply.
  std::span<const PeakFinder::Change> step() const { return changes_; }
  /// Applies the changes as one step. `claims`: memory only goes from one holder to another, so
  /// that a peak stands (PeakFinder::regroup()).
  void apply(uint64_t ticks, bool claims = false) {
    if (changes_.empty()) return;
    if (claims) {
      peaks_.regroup(changes_, ticks);
    } else {
      peaks_.apply(changes_, ticks);
    }
    for (const PeakFinder::Change& part : changes_) {
      if (holders_[part.group].what != What::kInUse) continue;
      Arena& arena = arenas_[holders_[part.group].arena];
      const PeakFinder::Scope& in_use = peaks_.scope(arena.scope);
      if (in_use.peak_ticks != ticks || in_use.current != in_use.peak || part.bytes <= 0) continue;
      arena.reserved_at_peak = peaks_.scope(arena.reserved_scope).current;
      arena.at_peak = true;
    }
    changes_.clear();
  }
  void finish() { peaks_.finish(); }

  std::vector<Arena> arenas_;

 private:
  static constexpr size_t kMostRows = 1000;  ///< arenas that come later share the last row

  ScopeId scope_in(std::map<int32_t, ScopeId>& scopes, int32_t device) {
    const auto [entry, added] = scopes.try_emplace(device);
    if (added) entry->second = peaks_.add_scope();
    return entry->second;
  }
  HolderId idle(size_t row, bool counted, IdleIn in, bool never_used) {
    HolderId& id = arenas_[row].idle[static_cast<size_t>(in)][never_used ? 1 : 0][counted ? 1 : 0];
    if (id == kNoHolder) {
      id = id_of({.what = What::kIdle,
                  .arena = row,
                  .never_used = never_used,
                  .counted = counted,
                  .idle_in = in});
    }
    return id;
  }
  /// The number of a holder; a new one counts into the sums that it is a part of.
  HolderId id_of(const Holder& holder) {
    const auto [entry, added] = ids_.try_emplace(holder);
    if (!added) return entry->second;
    std::vector<ScopeId> scopes;
    int32_t device = holder.device;
    if (holder.what != What::kOutside) {
      const Arena& of = arenas_[holder.arena];
      if (holder.what == What::kInUse) scopes.push_back(of.scope);
      scopes.push_back(of.reserved_scope);
      device = of.place;
    }
    if (holder.counted) scopes.push_back(scope_in(driver_scopes_, device));
    if (holder.counted && holder.what == What::kInUse) {
      for (const int32_t place : {device, kAllDevices})
        scopes.push_back(scope_in(in_arenas_scopes_, place));
    }
    holders_.push_back(holder);
    return entry->second = as_holder(peaks_.add_group(scopes));
  }

  PeakFinder peaks_;
  std::map<std::pair<uint32_t, int32_t>, size_t> by_name_;
  std::vector<Holder> holders_;
  std::map<Holder, HolderId> ids_;
  std::map<int32_t, ScopeId> driver_scopes_, in_arenas_scopes_;  // by device
  std::vector<PeakFinder::Change> changes_;
};

}  // namespace gpupeak::collector
