#include <algorithm>
#include <cmath>
#include <utility>

#include "collector/log/event.h"
#include "collector/replay/replay.h"

namespace gpupeak::collector {
namespace {

uint64_t usable_bytes(uint64_t bytes, int64_t slack) {
  return bytes + static_cast<uint64_t>(slack);
}
uint64_t usable_bytes(const Block& block) {
  return usable_bytes(block.bytes, block.slack);
}

/// In a Poisson sample by bytes, a block of this size is seen with probability 1 - exp(-bytes /
/// mean). So a block that was seen stands for its size divided by that probability.
uint64_t weight(double sample_bytes, uint64_t bytes) {
  if (sample_bytes <= 0 || bytes == 0) return bytes;
  const auto size = static_cast<double>(bytes);
  const double likely = size / -std::expm1(-size / sample_bytes);
  // A damaged sample size would give more bytes than any block has.
  return static_cast<uint64_t>(std::llround(std::min<double>(likely, kMaxBlockBytes)));
}

}  // namespace

HeapReplay::HeapReplay(const LogReader& log, LiveMemory& live,
                       AllocationContext& allocation_context, ArenaTable& arenas,
                       ReplayTroubles& troubles)
    : live_(live),
      allocation_context_(allocation_context),
      arenas_(arenas),
      troubles_(troubles),
      slots_(log.slots().size()) {
  if (log.header().host_mode != GPUPEAK_HOST_SAMPLED) return;
  sample_bytes_ = static_cast<double>(std::min(log.header().sample_bytes, kMaxBlockBytes));
  for (Slot& slot : slots_) slot.sample_bytes = sample_bytes_;
}

[[gnu::flatten]] void HeapReplay::take(const Event& event, Match match) {
  Slot& slot = slots_[event.slot];
  switch (event.tag) {
    case GPUPEAK_REC_ALLOC:
      allocate(slot, event, match);
      break;
    case GPUPEAK_REC_FREE:
      free(event, match);
      break;
    case GPUPEAK_REC_REALLOC_BEGIN:
      realloc_begin(slot, event, match);
      break;
    case GPUPEAK_REC_REALLOC_END:
      realloc_end(slot, event, match);
      break;
    case GPUPEAK_REC_REALLOC_FAILED:
      realloc_failed(slot, match);
      break;
    default:
      break;
  }
}

void HeapReplay::begin_sampling(uint32_t slot, const SamplingEvent& sampling, uint64_t ticks) {
  slots_[slot].sample_bytes = static_cast<double>(sampling.sample_bytes);
  slots_[slot].whole_bytes = sampling.whole_bytes > 0 ? sampling.whole_bytes : UINT64_MAX;
  slots_[slot].context_valid_for = 0;
  if (sampling.sample_bytes == 0) return;  // all blocks from here on
  sample_bytes_ = slots_[slot].sample_bytes;
  if (!sampled_since_) sampled_since_ = ticks;
}

void HeapReplay::renew_context(Slot& slot, const Event& event) {
  SiteContext context = allocation_context_.context(event, GPUPEAK_KIND_HEAP);
  slot.whole_context = live_.sites().context(context);
  slot.whole_counting = live_.sites().counting_of(slot.whole_context);
  context.sample_bytes = static_cast<uint64_t>(slot.sample_bytes);
  slot.context = live_.sites().context(context);
  slot.counting = live_.sites().counting_of(slot.context);
  slot.context_valid_for = allocation_context_.version();
}

/// Ends a block that was freed without an event: its address has another block now.
void HeapReplay::end_unseen(BlockNumber number) {
  const Block block = blocks_.block(number);
  ++troubles_.repairs;
  live_.count_out(counted(number, block));
  usable_.current -= usable_bytes(block);
}

/// Makes the block and takes its number.
PeakFinder::NewBlock HeapReplay::new_block(Slot& slot, const Event& event, BlockNumber number) {
  allocation_context_.enter_rule(event, event.stack);
  if (slot.context_valid_for != allocation_context_.version()) [[unlikely]]
    renew_context(slot, event);
  const auto slack = static_cast<int32_t>(std::clamp<int64_t>(event.slack, INT32_MIN, INT32_MAX));
  const bool is_whole = event.size >= slot.whole_bytes;
  const ContextId context = is_whole ? slot.whole_context : slot.context;
  const uint64_t bytes = is_whole ? event.size : weight(slot.sample_bytes, event.size);
  const Block block{event.address, bytes, slack, context};
  blocks_.set(number, block);
  usable_.current += usable_bytes(block);
  const Site site{allocation_context_.defined_stack(event.stack), context};
  return {number, block.bytes, site, is_whole ? slot.whole_counting : slot.counting};
}

void HeapReplay::allocate(Slot& slot, const Event& event, Match match) {
  if (event.address == 0) {
    ++troubles_.malformed_events;
    return;
  }
  if (match.differs != 0) [[unlikely]]
    end_unseen(match.block());
  live_.count_in(new_block(slot, event, match.block()), event.ticks);
  usable_.set(usable_.current);
}

void HeapReplay::free(const Event& event, Match match) {
  if (match.block() == kNoBlock) {
    ++troubles_.unknown_heap_frees;
    return;
  }
  if (arenas_.has_heap_blocks()) [[unlikely]]
    arenas_.heap_freed(event.address, event.ticks);
  const Block block = blocks_.block(match.block());
  blocks_.erase(match.block());
  live_.count_out(counted(match.block(), block), match.differs != 0);
  usable_.current -= usable_bytes(block);
}

void HeapReplay::realloc_begin(Slot& slot, const Event& event, Match match) {
  if (slot.reallocating) {  // the writer lost its end
    ++troubles_.repairs;
    put_back_old_block(slot, match);
  }
  slot.reallocating = true;
  slot.old_block = match.block();
  if (match.block() == kNoBlock) {
    ++troubles_.unknown_heap_frees;
    return;
  }
  if (arenas_.has_heap_blocks()) arenas_.heap_freed(event.address, event.ticks);
  // It counts until the end of the realloc, but its address may be handed out before.
  slot.old_address = event.address;
  blocks_.move_away(match.block());
}

void HeapReplay::put_back_old_block(Slot& slot, Match match) {
  if (slot.old_block == kNoBlock) return;
  if (match.differs != 0) {
    end_unseen(slot.old_block);
    blocks_.erase(slot.old_block);
  } else {
    blocks_.move_back(slot.old_block, slot.old_address);
  }
}

void HeapReplay::realloc_end(Slot& slot, const Event& event, Match match) {
  const bool begun = slot.reallocating;
  slot.reallocating = false;
  if (!begun) ++troubles_.repairs;
  if (begun && event.address == 0) put_back_old_block(slot, match);
  const BlockNumber number = std::exchange(slot.old_block, kNoBlock);
  if (!begun || number == kNoBlock || event.address == 0) return allocate(slot, event, match);
  const Block old = blocks_.block(number);
  blocks_.erase(number);
  usable_.current -= usable_bytes(old);
  if (match.differs != 0) end_unseen(match.block());
  const PeakFinder::NewBlock fresh = new_block(slot, event, match.block());
  live_.replace(counted(number, old), fresh, event.ticks);
  usable_.set(usable_.current);
}

void HeapReplay::realloc_failed(Slot& slot, Match match) {
  if (!slot.reallocating) {
    ++troubles_.repairs;
    return;
  }
  slot.reallocating = false;
  put_back_old_block(slot, match);
  slot.old_block = kNoBlock;
}

}  // namespace gpupeak::collector
