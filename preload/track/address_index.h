// Finds the block that an address lies in. Blocks do not overlap. The caller holds a lock for all
// but may_hold() and bounds(). HOOK-SAFE.
//
//   address → page of 16 MiB ┬ nothing
//                            ├ one block, which covers it whole
//                            └ the blocks that begin in it: a bit and a number a granule of 512
//                              bytes, and the block that covers its beginning
//
// The block of an address is the last one that begins at it or before. To add or to remove a block
// takes the same few steps, however many blocks there are: most come and go between two launches.
// If a signal handler jumps out of a change, the index can still be read.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace gpupeak::preload {

// What is known of a live block's uses. Filled in by track/last_use.cc. HOOK-SAFE.

/// Times are in ticks. The first cache line has all that a launch needs.
struct alignas(128) Use {
  uint64_t begin = 0, end = 0;  ///< addresses; both 0: no block
  uint64_t last = 0;
  uint64_t idle = 0;   ///< the longest time between two uses
  uint64_t count = 0;  ///< uses since the block's last record
  CUstream stream = nullptr;
  uint64_t arena = 0;          ///< the arena that gave the block; 0: the driver did
  uint32_t next_in_index = 0;  ///< for AddressIndex
  bool of_several_streams = false;
  bool is_mapping = false;
  bool may_wait = false;  ///< for WaitingIndex
  bool is_array = false;  ///< it has no address, and is in no index

  uint64_t first = 0;
  uint64_t idle_since = 0;
  uint64_t id = 0;        ///< the driver's block in the log; of a free Use: the next free one
  uint32_t waits_as = 0;  ///< for WaitingIndex
  uint32_t roles = 0;     ///< the first of its roles; 0: none
  uint32_t role_count = 0;
  bool is_host = false;          ///< pinned memory
  bool has_hidden_uses = false;  ///< its address was copied to a device

  bool holds(uint64_t address) const { return address >= begin && address < end; }
};

class AddressIndex {
 public:
  /// All blocks that the index ever had lie in [lowest, lowest + span).
  struct Bounds {
    uint64_t lowest, span;
    bool contain(uint64_t address) const { return address - lowest < span; }
    /// For the upper half of an address: `upper - (lowest >> 32) <= span_of_uppers()` if it may be
    /// within the bounds.
    uint64_t span_of_uppers() const { return ((lowest + span) >> 32) - (lowest >> 32); }
  };
  /// Needs no lock: who sees an address as the lowest also sees the span that was made for it.
  Bounds bounds() const {
    return {__atomic_load_n(&lowest_, __ATOMIC_ACQUIRE), __atomic_load_n(&span_, __ATOMIC_RELAXED)};
  }
  /// Whether a block may lie at the address. Needs no lock.
  bool may_hold(uint64_t address) const {
    return bounds().contain(address) && entry_of(address) != 0;
  }

  /// Call it first. A block's number is its place in `all`; 0 is no block.
  void begin(Use* all) { all_ = all; }
  /// The block that the address lies in; nullptr: none.
  Use* find(uint64_t address) const;
  /// False: there is no room, or another block overlaps.
  bool add(Use& block);
  /// Removes a block that add() took.
  void remove(const Use& block);
  /// In a forked child. The memory stays mapped.
  void forget();

 private:
  static constexpr int kAddressBits = 48, kPageShift = 24, kTopShift = 35, kGranuleShift = 9;
  static constexpr uint64_t kAddresses = uint64_t{1} << kAddressBits;
  static constexpr uint64_t kPage = uint64_t{1} << kPageShift;
  static constexpr uint64_t kPagesOfTop = uint64_t{1} << (kTopShift - kPageShift);
  static constexpr uint32_t kGranules = uint32_t{1} << (kPageShift - kGranuleShift);
  /// The lowest bit of an entry: the other bits are a block's number, not an address.
  static constexpr uint64_t kWhole = 1;

  /// Where a page's blocks begin. The blocks of a granule are a list, the last one first.
  struct Begins {
    static constexpr uint32_t kWords = kGranules / 64;

    uint64_t words[kWords / 64];  ///< a bit for each word of `bits`: it is not 0
    uint64_t bits[kWords];        ///< a bit for each granule: a block begins in it
    uint32_t before;              ///< the block that covers the page's beginning; 0: none
    Begins* next_free;
    uint32_t last_of[kGranules];  ///< the granule's last block; valid if the granule's bit is set

    uint32_t last_before(uint32_t granule) const;
    int first_behind(uint32_t granule) const;
    bool is_empty() const;
  };
  struct Pages {
    uint64_t entries[kPagesOfTop];  ///< 0, a block's number << 1 | kWhole, or a Begins*
  };

  static uint32_t granule_of(uint64_t address) {
    return static_cast<uint32_t>(address % kPage >> kGranuleShift);
  }
  uint32_t number_of(const Use& block) const { return static_cast<uint32_t>(&block - all_); }
  uint64_t entry_of(uint64_t address) const {
    const Pages* const pages = top_[address >> kTopShift].load(std::memory_order_acquire);
    return pages == nullptr
               ? 0
               : __atomic_load_n(&pages->entries[(address >> kPageShift) % kPagesOfTop],
                                 __ATOMIC_RELAXED);
  }
  uint32_t last_until(const Begins& begins, uint64_t address) const;
  bool is_free(const Begins& begins, uint64_t begin, uint64_t end) const;
  bool is_free_slowly(const Begins& begins, uint64_t begin, uint64_t end) const;
  void widen(uint64_t begin, uint64_t end);
  uint64_t* entry_at(uint64_t address);
  bool begin_in(uint64_t& entry, Use& block);
  bool cover(uint64_t& entry, const Use& block, uint64_t page);
  void end_in(uint64_t& entry, const Use& block);
  void uncover(uint64_t& entry, const Use& block);
  void uncover_until(const Use& block, uint64_t end);
  Begins* take_begins();
  void drop(uint64_t& entry, Begins& begins);

  uint64_t lowest_ = 0, span_ = 0;
  std::atomic<Pages*> top_[uint64_t{1} << (kAddressBits - kTopShift)] = {};
  Use* all_ = nullptr;
  Begins* free_ = nullptr;
  Begins* fresh_ = nullptr;  // reserved, not used yet
  uint32_t fresh_count_ = 0;
};

}  // namespace gpupeak::preload
