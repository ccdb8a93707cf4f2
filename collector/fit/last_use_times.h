// When each block of a log was last seen used, by the block's number. A replay in which blocks are
// freed right after their last use asks it when a block comes. For logs with uses.
#pragma once

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

  void on_block_alloc(const DeviceBlock& block) override {
    blocks_[block.alloc.id] = of_driver_.size();
    of_driver_.push_back(kNotKnown);
  }
  void on_arena_block(const ArenaBlockChange& change) override {
    if (!change.in_use) return;
    in_arenas_[{change.arena, change.address}] = of_arenas_.size();
    of_arenas_.push_back(kNotKnown);
  }
  void on_used(const UsedEvent& used, uint64_t ticks) override {
    if (used.count == 0) return;
    const uint64_t last = ticks - used.last_ago;
    if (used.arena == 0) {
      if (const auto block = blocks_.find(used.block); block != blocks_.end())
        of_driver_[block->second] = last;
    } else if (const auto block = in_arenas_.find({used.arena, used.block});
               block != in_arenas_.end()) {
      of_arenas_[block->second] = last;
    }
  }

  // In ticks; kNotKnown: the log does not say, or no use was seen. Blocks are numbered from 0 in
  // the order in which an observer is told of them. Those of the driver and those of arenas are
  // numbered apart.
  uint64_t of_driver(size_t number) const { return at(of_driver_, number); }
  uint64_t of_arenas(size_t number) const { return at(of_arenas_, number); }

 private:
  static uint64_t at(const std::vector<uint64_t>& times, size_t number) {
    return number < times.size() ? times[number] : kNotKnown;
  }

  std::vector<uint64_t> of_driver_, of_arenas_;
  std::unordered_map<uint64_t, size_t> blocks_;                // by id
  std::map<std::pair<uint64_t, uint64_t>, size_t> in_arenas_;  // by arena and address
};

}  // namespace gpupeak::collector
