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
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/log_reader.h"
#include "collector/replay/index.h"
#include "collector/replay/key_table.h"

namespace gpupeak::collector {

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

class BlockMatcher : public EventPass {
 public:
  explicit BlockMatcher(const LogReader& log) : slots_(log.slots().size()) {}

  /// Notes a Match for each heap event.
  void pass(std::span<const Event> events, std::span<uint32_t> notes) override;

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

}  // namespace gpupeak::collector
