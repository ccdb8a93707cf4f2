// When each block of a log was last seen used, by the block's number. A replay in which blocks are
// freed right after their last use asks it when a block comes. For logs with uses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/replay/replay.h"

namespace gpupeak::collector {

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

}  // namespace gpupeak::collector
