// The live heap blocks, by their number (block_matcher.h makes it). An event waits for its block's
// cache line, so an entry has 16 bytes, and none lies across two lines. Blocks whose size or slack
// does not fit, of a MiB and more, are kept in a map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "collector/replay/big_arrays.h"
#include "collector/replay/block_matcher.h"
#include "collector/replay/site_groups.h"

namespace gpupeak::collector {

struct Block {
  uint64_t address = 0;
  uint64_t bytes = 0;   ///< bytes that count in the sums
  int32_t slack = 0;    ///< usable bytes - bytes asked for
  ContextId context{};  ///< in which it was allocated
};

class LiveBlocks {
 public:
  /// `number` may be out of range.
  void prefetch(BlockNumber number) const { entries_.prefetch(number); }
  Block block(BlockNumber number) const {
    const Entry& entry = entries_[number];
    if (entry.size == kLarge) [[unlikely]]
      return large_.at(number);
    return {entry.address, entry.size >> kSlackBits,
            static_cast<int32_t>(entry.size & ((1u << kSlackBits) - 1)), entry.context};
  }
  /// `number` is one that there is, or the next one.
  void set(BlockNumber number, const Block& block) {
    Entry& entry = number == entries_.size() ? entries_.append() : entries_[number];
    if (entry.size == kLarge) [[unlikely]]
      large_.erase(number);
    const bool fits = block.bytes >> (kSizeBits - kSlackBits) == 0 &&
                      static_cast<uint32_t>(block.slack) >> kSlackBits == 0;
    entry.address = block.address;
    entry.context = block.context;
    entry.size =
        static_cast<uint32_t>(block.bytes << kSlackBits) | static_cast<uint32_t>(block.slack);
    if (!fits || entry.size == kLarge) [[unlikely]]
      keep_large(number, block);
  }
  void erase(BlockNumber number) {
    Entry& entry = entries_[number];
    if (entry.size == kLarge) [[unlikely]]
      large_.erase(number);
    entry.address = 0;
    entry.size = 0;
  }
  /// From move_away() to move_back(), around() does not find the block.
  void move_away(BlockNumber number) { entries_[number].address = 0; }
  void move_back(BlockNumber number, uint64_t address) { entries_[number].address = address; }

  /// The block that an address lies in, if there is one; of several the one that begins last. Looks
  /// at all blocks.
  std::optional<Block> around(uint64_t address) const;

 private:
  static constexpr unsigned kSizeBits = 32, kSlackBits = 12;
  static constexpr uint32_t kLarge = UINT32_MAX;
  struct Entry {
    uint64_t address;  // 0: the number has no block, or it has moved away
    ContextId context;
    uint32_t size;  // bytes and slack, or kLarge
  };

  void keep_large(BlockNumber number, const Block& block);

  ChunkedArray<Entry> entries_;
  std::unordered_map<BlockNumber, Block> large_;
};

}  // namespace gpupeak::collector
