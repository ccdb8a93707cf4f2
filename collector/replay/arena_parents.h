// The memory that arenas share out: blocks of the driver, and heap blocks that an arena was seen to
// use. An arena's block names no parent; the parent is the one that has the block's address.
// ArenaTable keeps one of these.
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
  using Key = uint64_t;  ///< device block's id; of heap blocks heap_key()
  static constexpr size_t kNobody = SIZE_MAX;

  struct Parent {
    uint64_t bytes = 0;
    uint64_t address = 0;          ///< of its range; 0: it has none now
    bool mapped = false;           ///< has the range by a mapping, and goes on where that ends
    bool captured = false;         ///< was taken while a graph was captured, for it
    int32_t place = 0;             ///< ArenaTable's
    HolderId outside = kNoHolder;  ///< while no arena has it; kNoHolder: it is in no sum
    size_t owner = kNobody;        ///< index of the arena whose memory it is
    GroupId taken_by = kNoGroup;   ///< Replay's: of the call to the driver
    uint64_t asked_bytes = 0;      ///< of it by the block that made it an arena's
    uint64_t used_bytes = 0;       ///< that have been in a block of its owner
    uint64_t in_use_bytes = 0;     ///< that are in one now
    uint64_t carved_bytes = 0;     ///< that arenas said are theirs, while it has no owner
    std::vector<uint64_t> carved;  ///< these arenas

    /// Where what is idle of it lies.
    ArenaAccounts::IdleIn idle_in() const {
      using In = ArenaAccounts::IdleIn;
      return captured ? In::kGraph : in_use_bytes > 0 ? In::kHole : In::kSegment;
    }
  };

  /// No address that a program sees has this bit.
  static Key heap_key(uint64_t address) { return address | UINT64_C(1) << 63; }
  static bool is_heap(Key key) { return key >> 63 != 0; }

  // The caller has emptied the ranges that end.

  /// What had this key before, or lay there, is forgotten.
  void add(Key key, const Parent& parent);
  Parent* find(Key key);
  void remove(Key key);
  /// The block `key` can be used at these addresses. Of several mappings of one block the first
  /// counts.
  void map(uint64_t address, uint64_t bytes, Key key);
  void unmap(uint64_t address, uint64_t bytes);
  bool has_heap_blocks() const { return heap_blocks_ > 0; }
  /// From now on the parent is an arena's.
  void give(Parent& parent, size_t owner) {
    parent.owner = owner;
    ++owned_version_;
  }
  /// Changes with every range that an owner has, gets or loses.
  uint64_t owned_version() const { return owned_version_; }
  size_t range_count() const { return ranges_.size(); }

  /// Calls `visit(key, parent, begin, end)` for what overlaps the range, lowest first. `visit` must
  /// not add or remove.
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
