// The uses of arenas' blocks, for who shows some blocks at some instants: what is said of a block's
// uses stands in the log behind the instant, mostly at the block's end, when another block may have
// its address. So each block has a number, and uses are kept of those that are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>

#include "collector/replay/replay_observer.h"
#include "collector/timeline/block_uses.h"

namespace gpupeak::collector {

class ArenaUses {
 public:
  static constexpr uint64_t kNone = 0;
  /// `on`: whether the log has uses. Else there is nothing to follow.
  explicit ArenaUses(bool on) : on_(on) {}

  bool on() const { return on_; }
  /// `arena`: the replay's number of it.
  void on_block(const ArenaBlockChange& change, size_t arena);
  void on_used(const UsedEvent& used, uint64_t ticks);

  /// The number of the block that `address` is in now: of what lies in one, where a replay knows
  /// that, the use is the block's. kNone: none is followed.
  uint64_t block_at(size_t arena, uint64_t address) const;
  /// What is said of that block will be asked for.
  void keep(size_t arena, uint64_t address);
  /// Of a block that was kept, when the log has ended.
  BlockUses of(uint64_t block) const;

 private:
  using Place = std::pair<size_t, uint64_t>;  ///< an arena and an address
  struct Live {
    uint64_t block = kNone, bytes = 0;
    bool is_kept = false;
    BlockUses uses;
  };

  std::map<Place, Live>::const_iterator live_at(size_t arena, uint64_t address) const;

  const bool on_;
  uint64_t last_block_ = kNone;
  std::map<uint64_t, size_t> arena_of_;  // by the log's number
  std::map<Place, Live> live_;
  std::unordered_map<uint64_t, BlockUses> ended_;
  std::unordered_map<uint64_t, Place> kept_live_;
};

}  // namespace gpupeak::collector
