#include "collector/fit/pool_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpupeak::collector {

void PoolHistory::add(const Step& step) {
  if (!why_not_.empty()) return;
  if (steps_.size() == kMostSteps) {
    return give_up(fmt::format("more than {} steps of it were recorded", kMostSteps));
  }
  steps_.push_back(step);
}

void PoolHistory::give_up(std::string why) {
  if (!why_not_.empty()) return;
  why_not_ = std::move(why);
  steps_ = {};
  open_ = {};
  live_ = {};
  cache_ = {};
}

void PoolHistory::segment_taken(uint64_t address, uint64_t bytes) {
  if (fresh_.bytes != 0) give_up("it took memory that it did not share out");
  fresh_ = {address, bytes};
  reserved_ += bytes;
}

void PoolHistory::segment_given_back(uint64_t address, uint64_t bytes) {
  reserved_ -= std::min(reserved_, bytes);
  if (!why_not_.empty()) return;
  if (!cache_.release(address, bytes)) {
    give_up("it gave back memory that was in use by the known rules");
  } else if (!emptying_) {
    emptying_ = true;
    add({.what = What::kEmpty});
  }
}

/// Whether the rules give a request this block. `step` then has what may have been asked for: of a
/// piece that was not split, no more than the piece, and more than what idle ones had.
bool PoolHistory::repeats(uint64_t address, uint64_t bytes, Step& step) {
  const bool small = TorchCache::is_small(bytes);
  std::optional<TorchCache::Piece> piece = cache_.find(bytes);
  if (piece.has_value() == (fresh_.bytes != 0)) return false;
  uint64_t least = std::max(cache_.largest_below(bytes), TorchCache::kSmall) + TorchCache::kRound;
  if (!piece) {
    if (TorchCache::segment_for(bytes) != fresh_.bytes) return false;
    if (bytes == fresh_.bytes) least = std::max(least, TorchCache::kLarge);
    piece = cache_.add_segment(fresh_.address, fresh_.bytes, small);
    segments_[step.block] = fresh_.address;
    fresh_ = {};
  }
  const uint64_t whole = cache_.bytes_of(*piece);
  if (cache_.address_of(*piece) != address) return false;
  if (whole != bytes && !TorchCache::splits(whole, bytes)) return false;
  if (whole == bytes && !small) {
    const uint64_t lowest = bytes - std::min(bytes, TorchCache::kSmall);
    step.slack = static_cast<uint32_t>(bytes - std::clamp(lowest, std::min(least, bytes), bytes));
  }
  cache_.take(*piece, bytes);
  return live_.try_emplace(address, Live{step.block, *piece}).second;
}

void PoolHistory::given(uint64_t address, uint64_t bytes) {
  Step step{.bytes = bytes, .block = blocks_++, .what = What::kGive};
  if (!why_not_.empty()) return;
  if (emptying_ && cache_.has_idle_segment()) {
    return give_up("it gave back some idle segments and kept others");
  }
  emptying_ = false;
  if (bytes == 0 || bytes % TorchCache::kRound != 0 || !repeats(address, bytes, step)) {
    return give_up(
        fmt::format("the block of its request {} lies elsewhere by the known rules", blocks_));
  }
  ++repeated_;
  add(step);
}

void PoolHistory::taken(uint64_t address) {
  if (!why_not_.empty()) return;
  const auto block = live_.find(address);
  if (block == live_.end()) return give_up("a block came back that it had not given");
  const Live live = block->second;
  live_.erase(block);
  cache_.put_back(live.piece);
  add({.block = live.block, .what = What::kTake});
}

void PoolHistory::others_have(uint64_t bytes) {
  if (bytes == others_ && !open_.empty()) return;
  others_ = bytes;
  if (!why_not_.empty()) return;
  open_.push_back(steps_.size());
  add({.bytes = bytes, .what = What::kOutside});
}

void PoolHistory::driver_had(uint64_t bytes) {
  if (why_not_.empty()) {
    for (const size_t step : open_) steps_[step].bytes += bytes;
  }
  open_.clear();
  others_have(others_);
}

void PoolHistory::at_once(uint64_t bytes) {
  if (!why_not_.empty()) return;
  add({.bytes = bytes, .what = What::kOutside});
  open_.push_back(steps_.size());
  add({.bytes = others_, .what = What::kOutside});
}

void PoolHistory::finish(uint64_t start) {
  if (fresh_.bytes != 0) give_up("it took memory that it did not share out");
  if (emptying_ && cache_.has_idle_segment()) {
    give_up("it gave back some idle segments and kept others");
  }
  if (blocks_ == 0) give_up("it was asked for nothing");
  for (Step& step : steps_) {
    if (step.what == What::kOutside) step.bytes += start;
  }
}

}  // namespace gpupeak::collector
