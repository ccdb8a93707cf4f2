// The uses of arenas' blocks, for views that show some blocks at some instants. A log has a block's
// uses later than such an instant, mostly at the block's end, when another block may have its
// address. So each block gets a number, and only uses that will be asked for are kept.
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
  /// `on`: whether the log has uses. If not, this does nothing.
  explicit ArenaUses(bool on) : on_(on) {}

  bool on() const { return on_; }
  /// `arena`: its number in the replay.
  void on_block(const ArenaBlockChange& change, size_t arena);
  void on_used(const UsedEvent& used, uint64_t ticks);

  /// The number of the block that `address` is in now; kNone: none is followed. A use of an address
  /// within a block is the block's.
  uint64_t block_at(size_t arena, uint64_t address) const;
  /// Keeps the uses of the block at this address: they will be asked for.
  void keep(size_t arena, uint64_t address);
  /// The uses of a block that was kept. Call it when the log has ended.
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
