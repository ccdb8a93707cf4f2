// Replays arenas on two levels: what sub-allocators have handed out, and the memory of which they
// hand out parts. At each instant all that an arena holds is in use or idle, to the byte. A
// device's memory is what its arenas have in use, what is idle in them, and what others hold.
// Replay calls it, the summary reads it.
//
// A piece of memory becomes an arena's when the arena first hands out a part of it. Until then the
// call that took it from the driver holds it. The two count as one step: a peak that the driver's
// call made stands until that step is done, and then has the arena as its holder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/onnx_runtime.h"
#include "collector/replay/arena_accounts.h"
#include "collector/replay/host_growth.h"
#include "collector/replay/peak_finder.h"
#include "collector/replay/troubles.h"

namespace gpupeak::collector {

// What each holder of device memory had at its own allocations, from which growth_summary tells
// what grows in a program without phases: blocks that come at an even pace and stay. A point has
// the least that the holder had since the point before, so that what comes and goes within a step
// is not in it. Each holder's points are bounded: of many allocations every second, fourth … has
// one. A holder that keeps one of its two blocks a step:
//
//   allocation   1   2   3   4   5   6        one of each two is freed before the next comes
//   point        0   0   1   1   2   2        blocks
//
// ArenaTable keeps one. What is freed after the last allocation of all is freed by the end.

class SteadyGrowth {
 public:
  static constexpr size_t kMostPoints = 32;

  using Point = GrowthPoint;
  using Amount = GrowthPoint::Amount;
  struct Series {
    uint64_t allocs = 0, stride = 1;
    Amount now, least;
    uint64_t gap = 0, last = 0;  ///< last: the number of its last allocation, of anybody's
    uint64_t freed_after = 0;    ///< the allocation of anybody after which it freed first …
    Amount before_freed;         ///< … and what it had before that
    std::vector<Point> points;
  };

  /// `claims`: memory only goes from one holder to another.
  void take(std::span<const PeakFinder::Change> step, uint64_t ticks, bool claims) {
    for (const PeakFinder::Change& change : step) {
      if (change.count == 0) continue;  // idle memory
      const auto group = static_cast<size_t>(change.group);
      if (series_.size() <= group) series_.resize(group + 1);
      if (change.count < 0) {
        freed_ += !claims;
        freed(series_[group], change);
      } else {
        allocated(series_[group], change, ticks);
      }
    }
  }

  /// By the holder's group.
  const std::vector<Series>& series() const { return series_; }
  /// What the holder had at the last allocation of anybody.
  Amount at_end(const Series& of) const {
    return of.freed_after == allocs_ ? of.before_freed : of.now;
  }
  /// How many allocations of others came after the holder's last one.
  uint64_t since_last(const Series& of) const { return allocs_ - of.last; }

 private:
  void freed(Series& of, const PeakFinder::Change& change) {
    if (of.freed_after != allocs_) {
      of.freed_after = allocs_;
      of.before_freed = of.now;
    }
    of.now.bytes += static_cast<uint64_t>(change.bytes);
    of.now.blocks += static_cast<uint64_t>(static_cast<int64_t>(change.count));
    if (of.now.bytes < of.least.bytes) of.least = of.now;
  }
  void allocated(Series& of, const PeakFinder::Change& change, uint64_t ticks) {
    ++allocs_;
    if (of.allocs++ > 0) of.gap = std::max(of.gap, allocs_ - of.last);
    of.last = allocs_;
    if (of.allocs % of.stride == 0) {
      of.points.push_back({of.allocs, ticks, of.least, freed_, of.gap});
      if (of.points.size() == kMostPoints) thin(of);
      of.gap = 0;
      of.least.bytes = UINT64_MAX;
    }
    of.now.bytes += static_cast<uint64_t>(change.bytes);
    of.now.blocks += static_cast<uint64_t>(change.count);
    if (of.now.bytes < of.least.bytes) of.least = of.now;
  }
  /// A point that goes is in the next one.
  static void thin(Series& of) {
    of.stride *= 2;
    std::vector<Point> kept;
    for (size_t i = 1; i < of.points.size(); i += 2) {
      Point point = of.points[i];
      const Point& before = of.points[i - 1];
      if (before.least.bytes < point.least.bytes) point.least = before.least;
      point.gap = std::max(point.gap, before.gap);
      kept.push_back(point);
    }
    of.points = std::move(kept);
  }

  std::vector<Series> series_;
  uint64_t allocs_ = 0, freed_ = 0;  ///< of anybody
};

// The memory that arenas share out: blocks of the driver, and heap blocks that an arena was seen to
// use. They are called parents here. An arena's block does not name its parent: the parent is the
// one that has the block's address. ArenaTable keeps these.
//
//   parent 5 (cuMemAlloc, 20 MiB at 0x1000000)   owner: PyTorch
//   PyTorch hands out 0x1400000                  lies in parent 5

class ArenaParents {
 public:
  using Key = uint64_t;  ///< a device block's id, or heap_key() of a heap block
  static constexpr size_t kNobody = SIZE_MAX;

  struct Parent {
    uint64_t bytes = 0;
    uint64_t address = 0;  ///< where its range of addresses begins; 0: it has none now
    /// Its range is a mapping; memory mapped behind it belongs to the same segment.
    bool mapped = false;
    bool captured = false;  ///< was taken while a graph was captured, for that graph
    int32_t place = 0;      ///< ArenaTable's
    /// Who holds it while no arena owns it; kNoHolder: it is in no sum.
    HolderId outside = kNoHolder;
    size_t owner = kNobody;       ///< index of the arena whose memory it is
    GroupId taken_by = kNoGroup;  ///< Replay's group of the call to the driver
    uint64_t asked_bytes = 0;     ///< of its bytes, what the block needed that made it an arena's
    uint64_t used_bytes = 0;      ///< of its bytes, what has been in a block of its owner
    uint64_t in_use_bytes = 0;    ///< of these, what is in one now
    uint64_t carved_bytes = 0;  ///< of its bytes, what arenas said is theirs; it then has no owner
    std::vector<uint64_t> carved;  ///< the numbers of these arenas

    /// Where its idle memory counts.
    ArenaAccounts::IdleIn idle_in() const {
      using In = ArenaAccounts::IdleIn;
      return captured ? In::kGraph : in_use_bytes > 0 ? In::kHole : In::kSegment;
    }
  };

  /// No address that a program sees has this bit.
  static Key heap_key(uint64_t address) { return address | UINT64_C(1) << 63; }
  static bool is_heap(Key key) { return key >> 63 != 0; }

  // Ranges that end here have no block in use any more: the caller sees to that.

  /// Adds a parent. Forgets one with the same key, and ranges at the same addresses.
  void add(Key key, const Parent& parent) {
    remove(key);
    if (parent.address != 0) unmap(parent.address, parent.bytes);
    parents_.emplace(key, parent);
    if (key >> 63 != 0) ++heap_blocks_;
    if (parent.address != 0 && parent.bytes > 0)
      ranges_[parent.address] = {parent.address + parent.bytes, key};
  }
  Parent* find(Key key) { return value_in(parents_, key); }
  void remove(Key key) {
    const auto entry = parents_.find(key);
    if (entry == parents_.end()) return;
    if (entry->second.owner != kNobody) ++owned_version_;
    const auto range = ranges_.find(entry->second.address);
    if (range != ranges_.end() && range->second.key == key) ranges_.erase(range);
    if (key >> 63 != 0) --heap_blocks_;
    parents_.erase(entry);
  }
  /// The block `key` can be used at these addresses. Of several mappings of one block the first
  /// counts.
  void map(uint64_t address, uint64_t bytes, Key key) {
    unmap(address, bytes);
    Parent* parent = find(key);
    if (parent == nullptr || parent->address != 0 || bytes == 0) return;
    parent->address = address;
    parent->mapped = true;
    if (parent->owner != kNobody) ++owned_version_;
    ranges_[address] = {address + std::min(bytes, parent->bytes), key};
  }
  /// A range goes as a whole, even if only a part of it is unmapped: in a sound log that does not
  /// happen.
  void unmap(uint64_t address, uint64_t bytes) {
    auto range = ranges_.upper_bound(address);
    if (range != ranges_.begin()) --range;
    while (range != ranges_.end() && range->first < address + bytes) {
      if (range->second.end <= address) {
        ++range;
        continue;
      }
      if (Parent* parent = find(range->second.key)) {
        parent->address = 0;
        if (parent->owner != kNobody) ++owned_version_;
      }
      range = ranges_.erase(range);
    }
  }
  bool has_heap_blocks() const { return heap_blocks_ > 0; }
  /// Makes the parent an arena's.
  void give(Parent& parent, size_t owner) {
    parent.owner = owner;
    ++owned_version_;
  }
  /// Changes whenever a range of an owner comes, goes or gets an owner.
  uint64_t owned_version() const { return owned_version_; }
  size_t range_count() const { return ranges_.size(); }

  /// Calls `visit(key, parent, begin, end)` for each range that overlaps these addresses, lowest
  /// first. `visit` must not add or remove parents.
  template <typename Visit>
  void for_each_in(uint64_t address, uint64_t bytes, Visit visit) {
    auto range = ranges_.upper_bound(address);
    if (range != ranges_.begin()) --range;
    for (; range != ranges_.end() && range->first < address + bytes; ++range) {
      if (range->second.end <= address) continue;
      if (Parent* const parent = find(range->second.key))
        visit(range->second.key, *parent, range->first, range->second.end);
    }
  }
  /// Calls `visit(begin, end, parent)` for all ranges of `owner`, lowest first.
  template <typename Visit>
  void for_each_of(size_t owner, Visit visit) const {
    for (const auto& [begin, range] : ranges_) {
      const Parent* const parent = value_in(parents_, range.key);
      if (parent != nullptr && parent->owner == owner) visit(begin, range.end, *parent);
    }
  }

 private:
  struct Range {
    uint64_t end;
    Key key;
  };

  std::unordered_map<Key, Parent> parents_;
  std::map<uint64_t, Range> ranges_;  // by begin; never overlapping
  size_t heap_blocks_ = 0;
  uint64_t owned_version_ = 0;
};

class ReplayObserver;

class ArenaTable : public ArenaAccounts {
 public:
  using PhaseNumber = uint32_t;  ///< PhaseTree's number

  /// What of an arena is idle. A piece lies within one segment. Memory that was taken while a graph
  /// was captured is kept for that graph, so it counts apart.
  struct Idle {
    uint64_t largest = 0, pieces = 0;
    uint64_t captured_bytes = 0, captured_largest = 0;
    bool grows_in_place = false;  ///< its memory is mapped, so that more can be mapped behind it
  };
  /// Addresses that an arena shares out. Ranges that were mapped side by side are one segment.
  struct Segment {
    uint64_t begin = 0, end = 0;
    bool captured = false;  ///< kept for a graph
    auto operator<=>(const Segment&) const = default;
  };
  /// An arena at one instant.
  struct Snapshot {
    size_t arena = 0;
    Level level;
    Idle idle;
  };
  /// Who made a request that was refused.
  struct Requester {
    uint32_t stack = 0, tid = 0;
    PhaseNumber phase = 0;
    /// Reserved by the process for the device, with no memory mapped.
    uint64_t unmapped_addresses = 0;
  };
  struct Held {
    HolderId holder;
    uint64_t bytes;
    uint32_t count;
  };
  struct Failure {
    uint64_t ticks = 0;
    uint64_t since_ticks = 0;  ///< when the arena last granted or refused a request; 0: never
    Requester requester;
    ArenaFailedEvent event;
    Snapshot snapshot;
    int32_t device = -1;        ///< -1: of no device
    uint64_t driver_bytes = 0;  ///< what the driver had handed out of the device, to all
    /// Who held the device's memory. Kept for the first kMaxFailuresWithHolders and for the last.
    std::vector<Held> holders;
  };
  static constexpr size_t kMaxFailures = 1000, kMaxFailuresWithHolders = 32;

  // The memory that arenas share out.
  struct DriverBlock {
    uint64_t id;
    uint8_t kind;
    int32_t device;
    uint64_t address, bytes;
    GroupId group;          ///< Replay's
    bool captured = false;  ///< taken while a graph was captured, for that graph
  };
  void device_allocated(const DriverBlock& block, uint64_t ticks);
  void device_freed(uint64_t id, uint64_t ticks);
  void device_mapped(uint64_t address, uint64_t bytes, uint64_t id, uint64_t ticks);
  void device_unmapped(uint64_t address, uint64_t bytes, uint64_t ticks);
  bool has_heap_blocks() const { return parents_.has_heap_blocks(); }
  void heap_freed(uint64_t address, uint64_t ticks) {
    remove_parent(ArenaParents::heap_key(address), ticks);
  }
  /// Sets `begin` and `bytes` to the heap block around an address; false if there is none. It is
  /// called seldom: once for each heap block that an arena shares out.
  using FindHeapBlock = std::function<bool(uint64_t address, uint64_t& begin, uint64_t& bytes)>;
  void use_heap(FindHeapBlock find) { find_heap_block_ = std::move(find); }
  /// Call it for the log of an attached program: its arenas have memory and blocks from before.
  void expect_older() { expects_older_ = true; }
  /// `observer` is told of each block; nullptr: nobody is.
  void watch(ReplayObserver* observer) { observer_ = observer; }

  // Arenas.
  /// `name`: the arena's, if the event creates one.
  void on_arena(const ArenaEvent& event, uint32_t name, uint64_t ticks);
  /// `parts`: to what the block is known to be shared out; none: it is one part.
  void allocate(const ArenaAllocEvent& event, uint32_t stack, uint64_t ticks, Cause cause = {},
                std::span<const BlockPart> parts = {});
  void free(const ArenaFreeEvent& event, uint64_t ticks);
  void failed(const ArenaFailedEvent& event, const Requester& requester, uint64_t ticks);
  void finish();

  /// The largest piece that the arena could hand out now without asking for more; O(blocks).
  uint64_t largest_idle(size_t arena) const;
  /// The arena now; O(blocks).
  Snapshot snapshot(size_t arena) const;
  /// Where the memory of an arena lies now, as in Arena. `number`: its number
  /// in the log.
  int32_t place_of(uint64_t number) const {
    const auto open = open_.find(number);
    return open == open_.end() ? kNowhere : arenas_[open->second.arena].place;
  }
  /// The arenas that have memory of a device now; O(blocks).
  std::vector<Snapshot> all_on(int32_t device) const;
  /// How many steps all_on() takes at most.
  uint64_t steps_of_all() const { return arenas().size() * steps_of_one(); }
  const ArenaCauses& causes() const { return causes_; }
  const SteadyGrowth& growth() const { return growth_; }
  /// The first kMaxFailures. If there are more, the last place has the last failure of all. Fewer
  /// are kept where patience_ ends.
  const std::vector<Failure>& failures() const { return failures_; }
  uint64_t failure_count() const { return failure_count_; }
  /// Ids of the driver's blocks that arenas have ever shared out.
  const std::unordered_set<uint64_t>& shared_out() const { return shared_out_; }
  /// Frees of blocks that are not in use, and events of arenas that nobody created.
  uint64_t unmatched() const { return unmatched_; }

  /// Calls `visit(address, bytes, holder, alone)` for each block in use, or for each of its parts,
  /// in no order. `alone`: it lies in no segment and is its own memory.
  template <typename Visit>
  void for_each_block(Visit visit) const {
    for (const auto& [number, open] : open_) {
      for (const auto& [address, block] : open.blocks) {
        const std::span<const PartOfBlock> parts = parts_of(open, address);
        for (const PartOfBlock& part : parts)
          visit(part.address, part.bytes, part.holder, block.alone);
        if (parts.empty()) visit(address, block.bytes, block.holder, block.alone);
      }
    }
  }
  /// How much is in use of blocks from before the log, now. None: an arena does not tell.
  /// O(arenas).
  std::optional<uint64_t> older_bytes(size_t arena) const;
  /// The arena's segments now, by address; O(ranges of all arenas).
  std::vector<Segment> segments(size_t arena) const;
  /// Changes whenever the segments of any arena do.
  uint64_t segments_version() const { return parents_.owned_version() + carved_version_; }
  /// How many steps segments() takes.
  size_t range_count() const { return parents_.range_count() + open_.size(); }
  /// Calls `visit(begin, end, captured)` for each piece of a segment that is idle, by address.
  template <typename Visit>
  void for_each_hole(size_t arena, Visit visit) const {
    const auto& placed = arenas()[arena].placed;
    for (const auto& [begin, end, captured] : segments(arena)) {
      uint64_t from = begin;
      auto block = placed.lower_bound(begin);
      if (block != placed.begin()) from = std::clamp(std::prev(block)->second, begin, end);
      for (; block != placed.end() && block->first < end; ++block) {
        if (block->first > from) visit(from, block->first, captured);
        from = std::max(from, block->second);
      }
      if (end > from) visit(from, end, captured);
    }
  }

 private:
  static constexpr unsigned kMostFruitlessLooks = 64;

  struct Block {
    HolderId holder = kNoHolder;
    uint64_t bytes = 0;
    bool counted = false;  ///< in its device's sum
    bool alone = true;     ///< lies in no memory of the arena's: is its own memory
  };
  struct Open {
    uint64_t number = 0;  // in the log
    size_t arena = 0;     // index into arenas_
    uint64_t address = 0, capacity_bytes = 0;
    bool carved = false;  // it said where its memory is: in `parent`, or in none that is known
    bool counted = false;
    ArenaParents::Key parent = 0;
    uint64_t used_bytes = 0;           // if carved: of its capacity, what has been in a block
    GroupId taken_by = kNoGroup;       // if carved: Replay's group of the call that took its memory
    std::map<uint64_t, Block> blocks;  // by address
    // By block; few blocks have parts, and then all of their bytes.
    std::map<uint64_t, std::vector<PartOfBlock>> parts;
    uint64_t in_use = 0;
    uint64_t unseen = 0;  // bytes in use before the first event that the log has
    bool told = false;
    uint64_t answered_ticks = 0;  // when it last granted or refused a request
  };

  void apply(uint64_t ticks, bool claims = false);
  void find_in_heap(uint64_t address, uint64_t ticks);
  ArenaParents::Parent* parent_at(const Open& open, uint64_t address, uint64_t ticks);
  bool can_place(size_t arena, const Open& open, uint64_t address, uint64_t bytes);
  void claim(ArenaParents::Key key, ArenaParents::Parent& parent, size_t arena,
             uint64_t asked_bytes, uint64_t ticks);
  void use_parents(size_t arena, uint64_t address, uint64_t bytes, uint64_t ticks, bool& claims);
  void leave_parents(size_t arena, uint64_t address, const Block& block);
  void set_in_use(ArenaParents::Parent& parent, uint64_t bytes);
  void take_idle(size_t arena, bool counted, IdleIn in, uint64_t fresh, uint64_t again);
  void forget_use(uint64_t address, uint64_t bytes);
  void carve(Open& open, const ArenaEvent& event, uint64_t ticks);
  void uncarve(uint64_t number, Open& open);
  void vacate(uint64_t address, uint64_t bytes);
  static std::span<const PartOfBlock> parts_of(const Open& open, uint64_t address) {
    const auto* const parts = value_in(open.parts, address);
    return parts == nullptr ? std::span<const PartOfBlock>() : *parts;
  }
  void put_parts(Open& open, uint64_t address, const Block& block, const Cause& cause,
                 std::span<const BlockPart> parts);
  using ArenaAccounts::change;
  void change(const Block& block, std::span<const PartOfBlock> parts, int sign, bool allocates);
  void tell(const Open& open, uint64_t address, const Block& block, bool in_use) const;
  void take_out(Open& open, uint64_t address, const Block& block);
  void take_out_all(Open& open);
  void remove_parent(ArenaParents::Key key, uint64_t ticks);
  void note_peak(size_t arena);
  uint64_t steps_of_one() const;
  Idle idle_pieces(size_t arena) const;
  void note_holders(Failure& failure) const;
  Open* open_of(uint64_t number);
  bool is_older(Open& open, const ArenaFreeEvent& event);
  void compare(Open& open, uint64_t in_use_plus_1, uint64_t reserved_plus_1);

  ArenaCauses causes_;
  SteadyGrowth growth_;
  ArenaParents parents_;
  std::unordered_map<uint64_t, Open> open_;  // by the log's number
  std::unordered_set<uint64_t> shared_out_;
  std::vector<Failure> failures_;
  uint64_t failure_count_ = 0;
  RefusalPatience patience_;
  uint64_t carved_version_ = 0;
  ReplayObserver* observer_ = nullptr;
  FindHeapBlock find_heap_block_;
  bool expects_older_ = false;
  unsigned fruitless_looks_ = 0;
  uint64_t unmatched_ = 0;
};

}  // namespace gpupeak::collector
