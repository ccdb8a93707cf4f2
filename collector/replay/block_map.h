// The live heap blocks, by address: an open-addressing table in one array, 24 bytes an entry.
// Replay keeps one; every heap event of a log goes through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "collector/replay/prefetch.h"

namespace gpupeak::collector {

struct Block {
  uint64_t address = 0;  ///< 0: the entry is free
  uint64_t bytes = 0;    ///< as it counts in the sums
  int32_t slack = 0;     ///< usable bytes - bytes asked for
  uint32_t group = 0;
};

class BlockMap {
 public:
  size_t size() const { return size_; }
  void prefetch(uint64_t address) const { prefetch_line(&table_[home(address)]); }
  /// The block at this address if it lies where its hash says, which most do; for prefetching only.
  const Block* peek(uint64_t address) const {
    const Block& block = table_[home(address)];
    return block.address == address && address != 0 ? &block : nullptr;
  }

  /// The block that an address lies in; nullptr: none. Looks at all, unless it is the first byte.
  const Block* around(uint64_t address) {
    if (const Block* block = find(address)) return block;
    for (size_t i = 0; i <= mask_; ++i) {
      const Block& block = table_[i];
      if (block.address != 0 && address - block.address < block.bytes) return &block;
    }
    return nullptr;
  }

  /// nullptr if no block begins there. Valid until the next claim or erase.
  Block* find(uint64_t address) {
    for (size_t i = home(address);; i = (i + 1) & mask_) {
      if (table_[i].address == address) return address != 0 ? &table_[i] : nullptr;
      if (table_[i].address == 0) return nullptr;
    }
  }

  /// The block at this address, which must not be 0; if there is none yet, one of 0 bytes. `added`
  /// tells. Valid until the next claim or erase.
  Block& claim(uint64_t address, bool& added) {
    if (size_ + size_ / 3 >= mask_) [[unlikely]]
      grow();
    size_t i = home(address);
    while (table_[i].address != address && table_[i].address != 0) i = (i + 1) & mask_;
    Block& block = table_[i];
    added = block.address == 0;
    if (added) block = {.address = address};
    size_ += added ? 1 : 0;
    return block;
  }

  /// Takes out what find() returned. Entries behind it move up, so that no tombstones are needed.
  void erase(Block* found) {
    size_t hole = static_cast<size_t>(found - table_.get());
    for (size_t i = (hole + 1) & mask_; table_[i].address != 0; i = (i + 1) & mask_) {
      const size_t wanted = home(table_[i].address);
      if (((i - wanted) & mask_) < ((i - hole) & mask_)) continue;
      table_[hole] = table_[i];
      hole = i;
    }
    table_[hole].address = 0;
    --size_;
  }

 private:
  static constexpr unsigned kMinBits = 12;
  static constexpr unsigned kAddressBits = 64;

  struct Unmap {
    size_t bytes = 0;
    void operator()(Block* table) const;
  };
  using Table = std::unique_ptr<Block[], Unmap>;

  /// Zeroed, and on huge pages if the kernel has some: events hit it at random, each time another
  /// page.
  static Table make_table(size_t entries);

  size_t home(uint64_t address) const {
    return static_cast<size_t>(((address >> 4) * UINT64_C(0x9e3779b97f4a7c15)) >> shift_);
  }
  void grow();

  unsigned bits_ = kMinBits;
  unsigned shift_ = kAddressBits - kMinBits;
  size_t mask_ = (size_t{1} << kMinBits) - 1;
  Table table_ = make_table(mask_ + 1);
  size_t size_ = 0;
};

}  // namespace gpupeak::collector
