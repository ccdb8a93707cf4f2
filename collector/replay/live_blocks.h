// The live heap blocks, by their number, which BlockMatcher makes. An event waits for its block's
// cache line, so an entry has 16 bytes, and none lies across two lines. Blocks whose size or slack
// does not fit, of a MiB and more, are kept in a map.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/log_reader.h"
#include "collector/replay/big_arrays.h"

namespace gpupeak::collector {

// Typed numbers of things that lie in a table. A number of one kind, or a plain number, becomes one
// of another kind only by an explicit conversion. Any of them can be an index.
//
//   GroupId group{7};              table[group]
//   ScopeListId list = group;      does not compile

/// `Of` names what is numbered; the type is never defined.
template <class Of>
class Index {
 public:
  constexpr Index() = default;
  explicit constexpr Index(size_t number) : number_(static_cast<uint32_t>(number)) {}

  constexpr operator uint32_t() const { return number_; }
  constexpr Index& operator++() {
    ++number_;
    return *this;
  }
  auto operator<=>(const Index&) const = default;

 private:
  uint32_t number_ = 0;
};

}  // namespace gpupeak::collector

template <class Of>
struct std::hash<gpupeak::collector::Index<Of>> {
  size_t operator()(gpupeak::collector::Index<Of> index) const {
    return std::hash<uint32_t>()(index);
  }
};

namespace gpupeak::collector {

// Finds which heap events are about the same block. It sees the events before the replay does, a
// batch at a time, on another thread where there is one. For each heap event it notes the number of
// the block that the event makes or ends. So the replay finds blocks by number, in an array, and
// knows the number long before it needs the block. Numbers are used again, the one that became free
// last first, so that blocks with short lives stay in the cache.
//
//   ALLOC a   ALLOC b   FREE a   ALLOC c   REALLOC_BEGIN b   ALLOC b   REALLOC_FAILED
//   0         1         0        0         1                 2         –, lost: b is block 2 now
//
// Contradictions are only noted here; the replay counts them.

using BlockNumber = Index<struct OfBlocks>;
/// The number of a block that is not known.
inline constexpr BlockNumber kNoBlock{(1U << 31) - 1};

/// The block of a heap event. `differs` says
/// - of an event that makes a block: a block with that number is still live at the address;
/// - of FREE: its thread has allocated no other block since this one;
/// - of an event that ends a realloc without a new block, or of one before which a realloc
///   ended unseen: the old block is lost, since its address has another block by now.
struct Match {
  uint32_t number : 31;
  uint32_t differs : 1;

  BlockNumber block() const { return BlockNumber(number); }
};

class BlockMatcher {
 public:
  explicit BlockMatcher(const LogReader& log) : slots_(log.slots().size()) {}

  /// An EventPass: notes a Match for each heap event.
  void pass(std::span<const Event> events, std::span<uint32_t> notes);

 private:
  /// What is known of one writer.
  struct Slot {
    uint64_t last_allocated = 0;  // address
    uint64_t old_address = 0;     // during a realloc
    uint32_t tid = 0;
    BlockNumber old_block = kNoBlock;  // during a realloc; kNoBlock: not known
    bool reallocating = false;
  };

  Match match(const Event& event);
  Match allocate(Slot& slot, uint64_t address);
  Match free(Slot& slot, uint64_t address);
  Match realloc_begin(Slot& slot, uint64_t address);
  Match realloc_end(Slot& slot, uint64_t address);
  bool put_back_old_block(Slot& slot);
  BlockNumber new_number();

  KeyTable numbers_;                 // by address
  std::vector<BlockNumber> unused_;  // free numbers below made_
  BlockNumber made_{};
  std::vector<Slot> slots_;
};

// Which group a site has, and to which group a live block belongs. Each question takes a cache line
// that the processor cannot guess. GroupAccounts asks, on whichever thread counts.
//
//   site                       group     block   belongs to
//   stack 7 in context 0         0         0       0
//   stack 9 in context 0         1         1       2
//   stack 7 in context 1         2         2       0

using GroupId = Index<struct OfGroups>;
inline constexpr GroupId kNoGroup{UINT32_MAX};
using ContextId = Index<struct OfContexts>;

/// Where a block was allocated, and in which context. Holders are told apart by this.
struct Site {
  uint32_t stack = 0;
  ContextId context{};
};

class SiteGroups {
 public:
  void prefetch(const Site& site) const { index_.prefetch(key_of(site)); }
  /// `block` may be out of range.
  void prefetch(BlockNumber block) const { of_blocks_.prefetch(block); }

  /// The site's group. `added`: the site is new and got the next number.
  GroupId group(const Site& site, bool& added) {
    const uint32_t* const known = index_.find(key_of(site));
    added = known == nullptr;
    return added ? add(site) : GroupId(*known);
  }
  GroupId of(BlockNumber block) const { return of_blocks_[block]; }
  /// `block` is one that there is, or the next one.
  void set(BlockNumber block, GroupId group) {
    (block == of_blocks_.size() ? of_blocks_.append() : of_blocks_[block]) = group;
  }

  const Site& site(GroupId group) const { return sites_[group]; }
  size_t size() const { return sites_.size(); }

 private:
  static uint64_t key_of(const Site& site) {
    return (static_cast<uint64_t>(site.context) << 32 | site.stack) + 1;
  }
  [[gnu::noinline]] GroupId add(const Site& site) {
    const auto group = static_cast<GroupId>(sites_.size());
    bool added;
    index_.claim(key_of(site), added) = group;
    sites_.append() = site;
    return group;
  }

  KeyTable index_;
  ChunkedArray<Site> sites_;
  ChunkedArray<GroupId> of_blocks_;
};

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
  std::optional<Block> around(uint64_t address) const {
    std::optional<Block> found;
    for (BlockNumber number{}; number < entries_.size(); ++number) {
      const uint64_t begin = entries_[number].address;
      if (begin == 0 || begin > address || (found && begin <= found->address)) continue;
      const Block block = this->block(number);
      if (address == begin || address - begin < block.bytes) found = block;
    }
    return found;
  }

  size_t large_count() const { return large_.size(); }
  /// Calls visit(number, block) for each block of a MiB and more that has not moved away.
  template <class Visit>
  void visit_large(const Visit& visit) const {
    for (const auto& [number, block] : large_)
      if (entries_[number].address != 0) visit(number, block);
  }

 private:
  static constexpr unsigned kSizeBits = 32, kSlackBits = 12;
  static constexpr uint32_t kLarge = UINT32_MAX;
  struct Entry {
    uint64_t address;  // 0: the number has no block, or it has moved away
    ContextId context;
    uint32_t size;  // bytes and slack, or kLarge
  };

  void keep_large(BlockNumber number, const Block& block) {
    entries_[number].size = kLarge;
    large_[number] = block;
  }

  ChunkedArray<Entry> entries_;
  std::unordered_map<BlockNumber, Block> large_;
};

}  // namespace gpupeak::collector
