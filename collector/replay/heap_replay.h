// The heap's part of a replay: the live blocks, and the reallocs that are under way. Every hot
// record of a log goes through take(). BlockMatcher has found out before which block each event is
// about.
//
// A realloc is logged in two halves. The old block counts until the second half, so that the sum
// has no dip. But its address is free from the first half on: another thread may be handed it.
//
//   REALLOC_BEGIN a   lies at a: –    old_block a   counted: a
//   (another thread's ALLOC a)        …             counted: a and the new a
//   REALLOC_END b     lies at b: b    –             counted: b, in one step
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/log_reader.h"
#include "collector/replay/allocation_context.h"
#include "collector/replay/arena_table.h"
#include "collector/replay/block_matcher.h"
#include "collector/replay/gauge.h"
#include "collector/replay/live_blocks.h"
#include "collector/replay/live_memory.h"
#include "collector/replay/troubles.h"

namespace gpupeak::collector {

class HeapReplay {
 public:
  HeapReplay(const LogReader& log, LiveMemory& live, AllocationContext& allocation_context,
             ArenaTable& arenas, ReplayTroubles& troubles);

  /// Of any event, ahead of it. Without a look at what event it is, which would be guessed wrong.
  void prefetch(const Event& event, Match match) const {
    blocks_.prefetch(match.block());
    if (live_.finds_groups_at_once()) [[unlikely]]
      live_.prefetch({event.stack, slots_[event.slot].context}, match.block());
  }
  void take(const Event& event, Match match);

  void begin_sampling(uint32_t slot, const SamplingEvent& sampling, uint64_t ticks);

  /// The block that an address lies in, if any.
  std::optional<Block> block_around(uint64_t address) const { return blocks_.around(address); }
  /// Usable bytes: requested bytes and what the allocator rounds them up by.
  const Gauge& usable() const { return usable_; }
  /// Mean of the sample that blocks are, or were at the end; 0: none was taken.
  uint64_t sample_bytes() const { return static_cast<uint64_t>(sample_bytes_); }
  /// When the log turned from all blocks to a sample; none: it did not.
  std::optional<uint64_t> sampled_since() const { return sampled_since_; }

 private:
  /// What is known of one writer.
  struct Slot {
    ContextId context{};             // of heap blocks that its thread allocates
    PeakFinder::Counting counting;   // of the groups of that context
    uint64_t context_valid_for = 0;  // AllocationContext::version() when it was made; 0: none yet
    double sample_bytes = 0;         // mean of the sample that its blocks are; 0: all
    uint64_t whole_bytes = UINT64_MAX;  // of a sample: blocks of so many bytes are all there
    ContextId whole_context{};          // of these
    PeakFinder::Counting whole_counting;
    bool reallocating = false;
    BlockNumber old_block = kNoBlock;  // while reallocating; kNoBlock: not known
    uint64_t old_address = 0;
  };

  void allocate(Slot& slot, const Event& event, Match match);
  void free(const Event& event, Match match);
  void realloc_begin(Slot& slot, const Event& event, Match match);
  void realloc_end(Slot& slot, const Event& event, Match match);
  void realloc_failed(Slot& slot, Match match);
  void end_unseen(BlockNumber block);
  PeakFinder::NewBlock new_block(Slot& slot, const Event& event, BlockNumber number);
  PeakFinder::OldBlock counted(BlockNumber number, const Block& block) const {
    return {number, block.bytes, live_.sites().counting_of(block.context)};
  }
  [[gnu::noinline]] void renew_context(Slot& slot, const Event& event);
  void put_back_old_block(Slot& slot, Match match);

  LiveMemory& live_;
  AllocationContext& allocation_context_;
  ArenaTable& arenas_;  // told of the end of blocks that arenas share out
  ReplayTroubles& troubles_;
  LiveBlocks blocks_;
  std::vector<Slot> slots_;
  Gauge usable_;
  double sample_bytes_ = 0;  // of the slots that are sampled
  std::optional<uint64_t> sampled_since_;
};

}  // namespace gpupeak::collector
