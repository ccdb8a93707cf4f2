#include "collector/replay/live_blocks.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace gpupeak::collector {

[[gnu::flatten]] void BlockMatcher::pass(std::span<const Event> events, std::span<uint32_t> notes) {
  constexpr size_t kAhead = 48;
  const size_t count = events.size();
  for (size_t i = 0; i < std::min(kAhead, count); ++i) numbers_.prefetch(events[i].address);
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) numbers_.prefetch(events[i + kAhead].address);
    notes[i] = std::bit_cast<uint32_t>(match(events[i]));
  }
}

inline Match BlockMatcher::match(const Event& event) {
  Slot& slot = slots_[event.slot];
  if (slot.tid != event.tid) [[unlikely]] {
    slot.tid = event.tid;
    slot.last_allocated = 0;
  }
  switch (event.tag) {
    case GPUPEAK_REC_ALLOC:
      return allocate(slot, event.address);
    case GPUPEAK_REC_FREE:
      return free(slot, event.address);
    case GPUPEAK_REC_REALLOC_BEGIN:
      return realloc_begin(slot, event.address);
    case GPUPEAK_REC_REALLOC_END:
      return realloc_end(slot, event.address);
    case GPUPEAK_REC_REALLOC_FAILED:
      return {kNoBlock, put_back_old_block(slot)};
    default:
      return {kNoBlock, 0};
  }
}

BlockNumber BlockMatcher::new_number() {
  if (unused_.empty()) [[unlikely]] {
    if (made_ == kNoBlock) throw std::length_error("more live blocks than can be numbered");
    const BlockNumber number = made_;
    ++made_;
    return number;
  }
  const BlockNumber number = unused_.back();
  unused_.pop_back();
  return number;
}

Match BlockMatcher::allocate(Slot& slot, uint64_t address) {
  if (address == 0) return {kNoBlock, 0};
  slot.last_allocated = address;
  bool added = false;
  uint32_t& number = numbers_.claim(address, added);
  if (added) number = new_number();
  return {number, !added};
}

Match BlockMatcher::free(Slot& slot, uint64_t address) {
  const uint32_t number = address != 0 ? numbers_.take(address) : KeyTable::kNone;
  if (number == KeyTable::kNone) return {kNoBlock, 0};
  unused_.emplace_back(number);
  const bool last = slot.last_allocated == address;
  if (last) slot.last_allocated = 0;
  return {number, last};
}

/// From now on the old block's address is free, but its number is not.
Match BlockMatcher::realloc_begin(Slot& slot, uint64_t address) {
  const bool lost = put_back_old_block(slot);
  const uint32_t number = address != 0 ? numbers_.take(address) : KeyTable::kNone;
  slot.reallocating = true;
  slot.old_address = address;
  slot.old_block = number == KeyTable::kNone ? kNoBlock : BlockNumber(number);
  return {slot.old_block, lost};
}

Match BlockMatcher::realloc_end(Slot& slot, uint64_t address) {
  if (address == 0) return {kNoBlock, put_back_old_block(slot)};
  if (slot.reallocating && slot.old_block != kNoBlock) unused_.push_back(slot.old_block);
  slot.reallocating = false;
  return allocate(slot, address);
}

/// Ends an open realloc without a new block. Returns whether the old block is lost.
bool BlockMatcher::put_back_old_block(Slot& slot) {
  if (!slot.reallocating) return false;
  slot.reallocating = false;
  if (slot.old_block == kNoBlock) return false;
  bool added = false;
  uint32_t& number = numbers_.claim(slot.old_address, added);
  if (added)
    number = slot.old_block;
  else
    unused_.push_back(slot.old_block);
  return !added;
}

}  // namespace gpupeak::collector
