// The live heap blocks, by address: an open-addressing table in one array. Replay keeps one; every
// heap event of a log goes through it. Which line an event hits nobody can guess, and what it waits
// for is that line, so an entry has 16 bytes: none lies across two lines. Sizes that do not fit, of
// a MiB and more, are kept beside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "collector/replay/prefetch.h"
#include "collector/replay/zeroed_table.h"

namespace gpupeak::collector {

struct Block {
  uint64_t address = 0;
  uint64_t bytes = 0;  ///< as it counts in the sums
  int32_t slack = 0;   ///< usable bytes - bytes asked for
  uint32_t group = 0;
};

class BlockMap {
 public:
  /// Where a block stands. Valid until the next claim or erase.
  struct Entry {
    uint64_t address = 0;  ///< 0: the entry is free
    uint32_t group = 0;
    uint32_t size = 0;  // bytes and slack, or kLarge
  };

  size_t size() const { return size_; }
  void prefetch(uint64_t address) const { prefetch_line(&table_[home(address)]); }

  /// The group of the block at this address, if it lies where its hash says, which most do; else
  /// any that there is. For prefetching only.
  uint32_t likely_group(uint64_t address) const { return table_[home(address)].group; }
  /// The block that an address lies in, if any. Looks at all, unless it is the first byte.
  std::optional<Block> around(uint64_t address) const {
    if (const Entry* entry = find(address)) return block(*entry);
    for (size_t i = 0; i <= mask_; ++i) {
      if (table_[i].address == 0) continue;
      const Block found = block(table_[i]);
      if (address - found.address < found.bytes) return found;
    }
    return std::nullopt;
  }

  /// nullptr if no block begins there.
  Entry* find(uint64_t address) const {
    for (size_t i = home(address);; i = (i + 1) & mask_) {
      if (table_[i].address == address) return address != 0 ? &table_[i] : nullptr;
      if (table_[i].address == 0) return nullptr;
    }
  }

  /// The entry of this address, which must not be 0; if there is none yet, one of 0 bytes. `added`
  /// tells.
  Entry& claim(uint64_t address, bool& added) {
    if (size_ + size_ / 3 >= mask_) [[unlikely]]
      grow();
    size_t i = home(address);
    while (table_[i].address != address && table_[i].address != 0) i = (i + 1) & mask_;
    Entry& entry = table_[i];
    added = entry.address == 0;
    if (added) entry.address = address;
    size_ += added ? 1 : 0;
    return entry;
  }

  Block block(const Entry& entry) const {
    if (entry.size == kLarge) [[unlikely]]
      return large_.at(entry.address);
    return {entry.address, entry.size >> kSlackBits,
            static_cast<int32_t>(entry.size & ((1u << kSlackBits) - 1)), entry.group};
  }
  /// The block is of the entry's address.
  void set(Entry& entry, const Block& block) {
    if (entry.size == kLarge) [[unlikely]]
      large_.erase(entry.address);
    entry.group = block.group;
    const bool fits = block.bytes >> (kSizeBits - kSlackBits) == 0 &&
                      static_cast<uint32_t>(block.slack) >> kSlackBits == 0;
    entry.size =
        static_cast<uint32_t>(block.bytes << kSlackBits) | static_cast<uint32_t>(block.slack);
    if (!fits || entry.size == kLarge) [[unlikely]]
      keep_large(entry, block);
  }

  /// Entries behind it move up, so that no tombstones are needed.
  void erase(Entry& erased) {
    if (erased.size == kLarge) [[unlikely]]
      large_.erase(erased.address);
    size_t hole = static_cast<size_t>(&erased - table_.get());
    for (size_t i = (hole + 1) & mask_; table_[i].address != 0; i = (i + 1) & mask_) {
      const size_t wanted = home(table_[i].address);
      if (((i - wanted) & mask_) < ((i - hole) & mask_)) continue;
      table_[hole] = table_[i];
      hole = i;
    }
    table_[hole] = {};
    --size_;
  }

 private:
  static constexpr unsigned kMinBits = 12;
  static constexpr unsigned kAddressBits = 64;
  static constexpr unsigned kSizeBits = 32, kSlackBits = 12;
  static constexpr uint32_t kLarge = UINT32_MAX;

  size_t home(uint64_t address) const {
    return static_cast<size_t>(((address >> 4) * UINT64_C(0x9e3779b97f4a7c15)) >> shift_);
  }
  void grow();
  void keep_large(Entry& entry, const Block& block);

  unsigned bits_ = kMinBits;
  unsigned shift_ = kAddressBits - kMinBits;
  size_t mask_ = (size_t{1} << kMinBits) - 1;
  ZeroedTable<Entry> table_{mask_ + 1};
  size_t size_ = 0;
  std::unordered_map<uint64_t, Block> large_;  // by address
};

}  // namespace gpupeak::collector
