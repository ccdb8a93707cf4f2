// Pools on two levels: what sub-allocators have handed out, and the memory that they hand out parts
// of. At each instant what an arena holds is in use or idle, to the byte; a device's memory is what
// its arenas have in use, what is idle in them, and what others hold. Replay drives it, the summary
// reads it.
//
// A piece of memory becomes an arena's when that first hands out a part of it. Whoever took it from
// the driver held it until then, which is one step: a peak that the driver's call made stands until
// the step is done, so that its holders are the pool's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/log/event.h"
#include "collector/replay/peak_finder.h"
#include "collector/replay/pool_parents.h"

namespace gpupeak::collector {

class ArenaTable {
 public:
  /// Where memory lies: a device's ordinal or one of these.
  static constexpr int32_t kHost = -1;
  static constexpr int32_t kNowhere = -2;  ///< in no block that the log knows
  static constexpr int32_t kAllDevices = -1;

  /// Arenas of one name in one place.
  struct Arena {
    uint32_t name = 0;  ///< Replay::name()
    int32_t place = kNowhere;
    uint64_t count = 0;           ///< that there were
    uint64_t capacity_bytes = 0;  ///< of those that live and said it
    uint64_t largest_capacity_bytes = 0;
    uint64_t alloc_count = 0;
    uint64_t failed_count = 0;  ///< requests
    ScopeId scope = 0;          ///< in use
    ScopeId reserved_scope = 0;
    uint64_t reserved_at_peak = 0;  ///< when most was in use
    uint64_t largest_idle_at_peak = 0;
    uint64_t told = 0;                       ///< events with the allocator's own totals
    uint64_t contradictions = 0;             ///< of these, how many say other than our sums
    uint64_t lost_bytes = 0;                 ///< handed out in memory that was freed under it
    GroupId idle[2] = {kNoGroup, kNoGroup};  // in no device's sum; in its device's
    bool at_peak = false;                    // nothing has changed since the last new maximum
    // Blocks that are part of the arena's memory, begin and end: they never overlap.
    std::map<uint64_t, uint64_t> placed;
  };
  enum class What : uint8_t { kInUse, kIdle, kOutside };
  /// Who holds bytes. In use: what the arena called the block or, if nothing, where it was handed
  /// out. Outside of all arenas: a group of Replay's.
  struct Holder {
    What what = What::kInUse;
    size_t arena = 0;
    uint32_t name = 0;
    uint32_t stack = 0;
    GroupId outside = kNoGroup;
  };
  /// One arena at one instant.
  struct Level {
    uint64_t in_use = 0, reserved = 0;
    uint64_t idle() const { return reserved - in_use; }
  };
  struct Failure {
    uint64_t ticks = 0;
    size_t arena = 0;
    uint64_t bytes = 0;
    uint32_t stack = 0;
    Level level;
    uint64_t largest_idle = 0;
    uint64_t driver_bytes = 0;  ///< what the driver had handed out of the device, to all
  };
  static constexpr size_t kMaxFailures = 1000;

  // The memory that arenas share out.
  /// `group`: Replay's.
  void device_allocated(uint64_t id, uint8_t kind, int32_t device, uint64_t address, uint64_t bytes,
                        GroupId group, uint64_t ticks);
  void device_freed(uint64_t id, uint64_t ticks);
  void device_mapped(uint64_t address, uint64_t bytes, uint64_t id, uint64_t ticks);
  void device_unmapped(uint64_t address, uint64_t bytes, uint64_t ticks);
  bool has_heap_blocks() const { return parents_.has_heap_blocks(); }
  void heap_freed(uint64_t address, uint64_t ticks) {
    remove_parent(PoolParents::heap_key(address), ticks);
  }
  /// Sets `begin` and `bytes` to the heap block around an address; false if there is none. Asked
  /// seldom: once for each block that an arena shares out.
  using FindHeapBlock = std::function<bool(uint64_t address, uint64_t& begin, uint64_t& bytes)>;
  void use_heap(FindHeapBlock find) { find_heap_block_ = std::move(find); }

  // Arenas.
  /// `name`: of an ARENA that was created.
  void on_arena(const ArenaEvent& event, uint32_t name, uint64_t ticks);
  void allocate(const ArenaAllocEvent& event, uint32_t stack, uint64_t ticks);
  void free(const ArenaFreeEvent& event, uint64_t ticks);
  void failed(const ArenaFailedEvent& event, uint32_t stack, uint64_t ticks);
  void finish();

  /// In the order of their first creation.
  const std::vector<Arena>& arenas() const { return arenas_; }
  Level level(size_t arena) const;
  /// The largest piece that the arena could hand out without asking for more. Now; O(blocks).
  uint64_t largest_idle(size_t arena) const;
  const PeakFinder& peaks() const { return peaks_; }
  /// What the driver has handed out of a device, split by holders; nullptr: nothing ever.
  const ScopeId* device_scope(int32_t device) const;
  /// What all arenas have in use of a device's memory; kAllDevices: of all. nullptr: there are
  /// none.
  const ScopeId* pooled_scope(int32_t device) const;
  /// Of each group of peaks().
  const std::vector<Holder>& holders() const { return holders_; }
  const std::vector<Failure>& failures() const { return failures_; }
  /// Frees of blocks that are not in use, and events of arenas that nobody created.
  uint64_t unmatched() const { return unmatched_; }

  /// Calls `visit(arena, address, bytes, holder)` for each block in use, by address in each arena.
  template <typename Visit>
  void for_each_block(Visit visit) const {
    for (const auto& [number, open] : open_) {
      for (const auto& [address, block] : open.blocks) {
        visit(open.arena, address, block.bytes, holders_[block.group]);
      }
    }
  }
  /// Calls `visit(arena, begin, end)` for each range of addresses that arenas share out.
  template <typename Visit>
  void for_each_segment(Visit visit) const {
    for (size_t arena = 0; arena < arenas_.size(); ++arena) {
      parents_.for_each_of(arena, [&](uint64_t begin, uint64_t end, const PoolParents::Parent&) {
        visit(arena, begin, end);
      });
    }
  }

 private:
  static constexpr size_t kMostArenas = 1000;  ///< those that come later share the last one's row
  static constexpr unsigned kMostFruitlessLooks = 64;

  struct Block {
    GroupId group = kNoGroup;
    uint64_t bytes = 0;
    bool counted = false;  ///< in its device's sum
    bool alone = true;     ///< lies in nothing that is the arena's: is its own memory
  };
  struct Open {
    size_t arena = 0;  // index into arenas_
    uint64_t address = 0, capacity_bytes = 0;
    bool carved = false;  // the capacity is part of `parent`, or in no known one
    bool counted = false;
    PoolParents::Key parent = 0;
    std::map<uint64_t, Block> blocks;  // by address
    uint64_t in_use = 0;
    uint64_t unseen = 0;  // in use before the first event that we saw
    bool told = false;
  };
  using Changes = std::vector<PeakFinder::Change>;

  size_t arena_for(uint32_t name, int32_t place);
  size_t arena_in(Open& open, int32_t place);
  ScopeId scope_in(std::map<int32_t, ScopeId>& scopes, int32_t device);
  GroupId outside_group(GroupId group, int32_t device);
  GroupId idle_group(size_t arena, bool counted);
  GroupId use_group(size_t arena, bool counted, uint32_t name, uint32_t stack);
  void change(GroupId group, int64_t bytes, int32_t count = 0, bool allocates = false);
  void find_in_heap(uint64_t address, uint64_t ticks);
  PoolParents::Parent* parent_at(const Open& open, uint64_t address, uint64_t ticks);
  bool can_place(size_t arena, const Open& open, uint64_t address, uint64_t bytes);
  void claim(PoolParents::Parent& parent, size_t arena);
  void carve(Open& open, const ArenaEvent& event, uint64_t ticks);
  void uncarve(uint64_t number, Open& open);
  void vacate(uint64_t address, uint64_t bytes);
  void take_out(Open& open, uint64_t address, const Block& block);
  void take_out_all(Open& open);
  void remove_parent(PoolParents::Key key, uint64_t ticks);
  void apply(uint64_t ticks, bool claims = false);
  void note_peak(Arena& arena);
  void compare(Open& open, uint64_t in_use_plus_1, uint64_t reserved_plus_1);

  PeakFinder peaks_;
  PoolParents parents_;
  std::vector<Arena> arenas_;
  std::map<std::pair<uint32_t, int32_t>, size_t> by_name_;
  std::vector<Holder> holders_;
  struct UseKey {
    size_t arena;
    bool counted;
    uint32_t name, stack;
    auto operator<=>(const UseKey&) const = default;
  };
  std::map<UseKey, GroupId> use_groups_;
  std::unordered_map<GroupId, GroupId> outside_groups_;       // by Replay's
  std::map<int32_t, ScopeId> driver_scopes_, pooled_scopes_;  // by device
  std::unordered_map<uint64_t, Open> open_;                   // by the log's number
  std::vector<Failure> failures_;
  FindHeapBlock find_heap_block_;
  unsigned fruitless_looks_ = 0;
  Changes changes_;
  uint64_t unmatched_ = 0;
};

}  // namespace gpupeak::collector
