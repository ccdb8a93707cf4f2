// The memory that arenas share out: blocks of the driver, and heap blocks that an arena was seen to
// use. They are called parents here. An arena's block does not name its parent: the parent is the
// one that has the block's address. ArenaTable keeps these.
//
//   parent 5 (cuMemAlloc, 20 MiB at 0x1000000)   owner: PyTorch
//   PyTorch hands out 0x1400000                  lies in parent 5
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "collector/replay/arena_accounts.h"

namespace gpupeak::collector {

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
  void add(Key key, const Parent& parent);
  Parent* find(Key key);
  void remove(Key key);
  /// The block `key` can be used at these addresses. Of several mappings of one block the first
  /// counts.
  void map(uint64_t address, uint64_t bytes, Key key);
  void unmap(uint64_t address, uint64_t bytes);
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
      const auto parent = parents_.find(range->second.key);
      if (parent != parents_.end()) {
        visit(parent->first, parent->second, range->first, range->second.end);
      }
    }
  }
  /// Calls `visit(begin, end, parent)` for all ranges of `owner`, lowest first.
  template <typename Visit>
  void for_each_of(size_t owner, Visit visit) const {
    for (const auto& [begin, range] : ranges_) {
      const auto parent = parents_.find(range.key);
      if (parent != parents_.end() && parent->second.owner == owner) {
        visit(begin, range.end, parent->second);
      }
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

}  // namespace gpupeak::collector
