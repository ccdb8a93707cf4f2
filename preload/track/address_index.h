// Which block an address lies in. Blocks do not overlap; the caller's lock covers all but
// may_hold(). HOOK-SAFE.
//
//   address → page of 2 MiB ┬ nothing
//                           ├ one block, which covers it whole
//                           └ a list of the pieces that lie in it, by offset
//
// A block of 1 GiB so has 511 entries and two lists of one piece; a page of small blocks has one
// list. If a signal handler jumps out of a change, the index can still be read: the number that
// it gives may be another block's, so the caller compares the address with the block's own.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpupeak::preload {

class AddressIndex {
 public:
  /// Between which addresses all blocks were that there ever were. Without the lock.
  struct Bounds {
    uint64_t lowest, span;
    bool contain(uint64_t address) const { return address - lowest < span; }
  };
  Bounds bounds() const {
    return {__atomic_load_n(&lowest_, __ATOMIC_RELAXED), __atomic_load_n(&span_, __ATOMIC_RELAXED)};
  }
  /// Whether a block may lie at the address. Without the lock.
  bool may_hold(uint64_t address) const;
  /// The number that add() was given; 0: none.
  uint32_t find(uint64_t address) const;
  /// False: there is no room, or one of another number overlaps. `number`: from 1 on, below 1
  /// << 31.
  bool add(uint64_t begin, uint64_t bytes, uint32_t number);
  /// What add() was given.
  void remove(uint64_t begin, uint64_t bytes, uint32_t number);
  /// In a forked child. The pages stay.
  void forget();

 private:
  static constexpr int kAddressBits = 48, kPageShift = 21, kTopShift = 35;
  static constexpr uint64_t kAddresses = uint64_t{1} << kAddressBits;
  static constexpr uint64_t kPage = uint64_t{1} << kPageShift;
  static constexpr uint64_t kPagesOfTop = uint64_t{1} << (kTopShift - kPageShift);
  static constexpr uint32_t kWhole = 1u << 31;  ///< in an entry: a block's number, not a list's

  struct Pages {
    uint32_t entries[kPagesOfTop];
  };
  struct Piece {
    uint32_t begin, end;  ///< offsets in the page
    uint32_t number;
  };
  struct List {
    Piece* pieces;
    uint32_t count, capacity;
    uint32_t next_free;
  };

  void widen(uint64_t begin, uint64_t end);
  uint32_t* entry_at(uint64_t address);
  static uint32_t position(const List& list, uint32_t offset);
  bool add_piece(uint32_t& entry, Piece piece);
  void remove_piece(uint32_t& entry, uint32_t offset, uint32_t number);
  uint32_t take_list();
  bool make_room(List& list);
  void drop_list(uint32_t& entry);

  uint64_t lowest_ = 0, span_ = 0;
  std::atomic<Pages*> top_[uint64_t{1} << (kAddressBits - kTopShift)] = {};
  List* lists_ = nullptr;  // reserved; 0 is none
  uint32_t list_count_ = 0, free_list_ = 0;
};

}  // namespace gpupeak::preload
