// The live heap blocks, by their number (block_matcher.h gives it). What an event waits for is the
// line of its block, so an entry has 16 bytes: none lies across two lines. Sizes that do not fit,
// of a MiB and more, are kept beside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "collector/replay/block_matcher.h"
#include "collector/replay/chunked_array.h"
#include "collector/replay/site_groups.h"

namespace gpupeak::collector {

struct Block {
  uint64_t address = 0;
  uint64_t bytes = 0;   ///< as it counts in the sums
  int32_t slack = 0;    ///< usable bytes - bytes asked for
  ContextId context{};  ///< it was allocated in
};

class LiveBlocks {
 public:
  /// Any number may be asked for.
  void prefetch(BlockNumber number) const { entries_.prefetch(number); }
  Block block(BlockNumber number) const {
    const Entry& entry = entries_[number];
    if (entry.size == kLarge) [[unlikely]]
      return large_.at(number);
    return {entry.address, entry.size >> kSlackBits,
            static_cast<int32_t>(entry.size & ((1u << kSlackBits) - 1)), entry.context};
  }
  /// A new number is the next one.
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
  /// For around() alone: nothing lies there for a while, or there again.
  void move_away(BlockNumber number) { entries_[number].address = 0; }
  void move_back(BlockNumber number, uint64_t address) { entries_[number].address = address; }

  /// The block that an address lies in, if any; of several the one that begins last. Looks at all.
  std::optional<Block> around(uint64_t address) const;

 private:
  static constexpr unsigned kSizeBits = 32, kSlackBits = 12;
  static constexpr uint32_t kLarge = UINT32_MAX;
  struct Entry {
    uint64_t address;  // 0: no block lies there now
    ContextId context;
    uint32_t size;  // bytes and slack, or kLarge
  };

  void keep_large(BlockNumber number, const Block& block);

  ChunkedArray<Entry> entries_;
  std::unordered_map<BlockNumber, Block> large_;
};

}  // namespace gpupeak::collector
