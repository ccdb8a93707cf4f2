// What sub-allocators have in use of the memory that they manage, by arena name: exact peaks and
// who held the bytes then. None of it is part of any other sum. Replay drives it, the summary reads
// it.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/log/event.h"
#include "collector/replay/peak_finder.h"

namespace gpupeak::collector {

class ArenaTable {
 public:
  /// Arenas of one name.
  struct Arena {
    uint32_t name = 0;            ///< Replay::name()
    uint64_t count = 0;           ///< that there were
    uint64_t capacity_bytes = 0;  ///< of those that live
    uint64_t largest_capacity_bytes = 0;
    uint64_t alloc_count = 0;
    ScopeId scope = 0;
  };
  /// Who holds bytes of an arena: what it called the block or, if nothing, where it was handed out.
  struct Holder {
    uint32_t name = 0;
    uint32_t stack = 0;
  };

  /// `name`: of an ARENA that was created.
  void on_arena(const ArenaEvent& event, uint32_t name);
  void allocate(const ArenaAllocEvent& event, uint32_t stack, uint64_t ticks);
  void free(const ArenaFreeEvent& event);
  void finish() { peaks_.finish(); }

  /// By name, in the order of their first creation.
  const std::vector<Arena>& arenas() const { return arenas_; }
  const PeakFinder& peaks() const { return peaks_; }
  /// Of each group of peaks().
  const std::vector<Holder>& holders() const { return holders_; }
  /// Frees of blocks that are not in use, and events of arenas that nobody created.
  uint64_t unmatched() const { return unmatched_; }

 private:
  static constexpr size_t kMostNames = 1000;  ///< those that come later share the last one's row

  struct Block {
    GroupId group;
    uint64_t bytes;
  };
  struct Open {
    size_t arena = 0;  // index into arenas_
    uint64_t capacity_bytes = 0;
    std::unordered_map<uint64_t, Block> blocks;  // by address
  };

  size_t arena_named(uint32_t name);
  GroupId group_of(size_t arena, uint32_t name, uint32_t stack);
  void clear(Open& open);

  PeakFinder peaks_;
  std::vector<Arena> arenas_;
  std::map<uint32_t, size_t> by_name_;
  std::vector<Holder> holders_;
  std::map<std::pair<size_t, std::pair<uint32_t, uint32_t>>, GroupId> groups_;
  std::unordered_map<uint64_t, Open> open_;  // by the log's number
  uint64_t unmatched_ = 0;
};

}  // namespace gpupeak::collector
