// The heap's part of a replay: the live blocks, and open reallocs. Every hot record of a log goes
// through take(). BlockMatcher has already found which block each event is about.
//
// A realloc is logged in two halves. The old block counts until the second half, so that the sum
// has no dip. But its address is free from the first half on: another thread may be given it.
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
#include "collector/replay/live_blocks.h"
#include "collector/replay/live_memory.h"
#include "collector/replay/troubles.h"

namespace gpupeak::collector {

class HeapReplay {
 public:
  HeapReplay(const LogReader& log, LiveMemory& live, AllocationContext& allocation_context,
             ArenaTable& arenas, ReplayTroubles& troubles);

  /// Fetches what an event will need; called for any event, some events ahead. It does not ask what
  /// event it is: that would be a branch that the processor guesses wrong.
  void prefetch(const Event& event, Match match) const {
    blocks_.prefetch(match.block());
    if (live_.finds_groups_at_once()) [[unlikely]]
      live_.prefetch({event.stack, slots_[event.slot].context}, match.block());
  }
  void take(const Event& event, Match match);

  void begin_sampling(uint32_t slot, const SamplingEvent& sampling, uint64_t ticks);

  /// The block that an address lies in, if there is one.
  std::optional<Block> block_around(uint64_t address) const { return blocks_.around(address); }
  /// Usable bytes: requested bytes, and the slack.
  const Gauge& usable() const { return usable_; }
  /// The mean of the sample that the log has at its end; 0: it has all blocks.
  uint64_t sample_bytes() const { return static_cast<uint64_t>(sample_bytes_); }
  /// When the log changed from all blocks to a sample; none: it did not.
  std::optional<uint64_t> sampled_since() const { return sampled_since_; }

 private:
  /// What is known of one writer.
  struct Slot {
    ContextId context{};            // context of the heap blocks that its thread allocates
    PeakFinder::Counting counting;  // how groups of that context are counted
    // AllocationContext::version() then; 0: there is no context yet.
    uint64_t context_valid_for = 0;
    double sample_bytes = 0;  // mean of the sample of its blocks; 0: it has all
    // In a sample: blocks of so many bytes and more are all there.
    uint64_t whole_bytes = UINT64_MAX;
    ContextId whole_context{};  // context of such blocks
    PeakFinder::Counting whole_counting;
    bool reallocating = false;
    BlockNumber old_block = kNoBlock;  // during a realloc; kNoBlock: not known
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
  ArenaTable& arenas_;  // is told of the end of blocks that arenas share out
  ReplayTroubles& troubles_;
  LiveBlocks blocks_;
  std::vector<Slot> slots_;
  Gauge usable_;
  double sample_bytes_ = 0;  // of the slots that are sampled
  std::optional<uint64_t> sampled_since_;
};

}  // namespace gpupeak::collector
