#include "collector/fit/arena_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace gpupeak::collector {
void ArenaRequests::add(const Step& step) {
  if (!why_not_.empty()) return;
  if (steps_.size() == kMostSteps) {
    return give_up(fmt::format("more than {} steps of it were recorded", kMostSteps));
  }
  steps_.push_back(step);
}

void ArenaRequests::give_up(std::string why) {
  if (!why_not_.empty()) return;
  why_not_ = std::move(why);
  steps_ = {};
  sites_ = {};
  open_ = {};
  live_ = {};
  own_ = {};
  model_ = model_->fresh();
}

void ArenaRequests::segment_taken(uint64_t address, uint64_t bytes) {
  if (fresh_.bytes != 0) give_up("it took memory that it did not share out");
  fresh_ = {address, bytes};
  reserved_ += whole_driver_pages(bytes);
}

void ArenaRequests::segment_given_back(uint64_t address, uint64_t bytes) {
  reserved_ -= std::min(reserved_, whole_driver_pages(bytes));
  if (!why_not_.empty() || own_.erase(address) == 1) return;
  if (!model_->pieces().release(address, bytes)) {
    give_up("it gave back memory that was in use by the known rules");
  } else if (!emptying_) {
    emptying_ = true;
    add({.what = What::kEmpty});
  }
}

bool ArenaRequests::is_own(uint64_t address, uint64_t bytes) const {
  return model_->has_own_segments() && fresh_.address == address && fresh_.bytes == bytes;
}

bool ArenaRequests::give_own(Step& step) {
  const Fresh own = fresh_;
  fresh_ = {};
  step.what = What::kGiveOwn;
  model_->pieces().add_own(own.bytes);
  return own_.insert(own.address).second &&
         live_.try_emplace(own.address, Live{step.block, 0, own.bytes}).second;
}

/// Whether the rules give a request this block. If it is not known what was asked for, `step` gets
/// what it may have been: for a piece that was given whole, more than the largest idle piece that
/// is smaller, and at most the piece.
bool ArenaRequests::repeats(uint64_t address, uint64_t bytes, uint64_t asked, Step& step) {
  const uint64_t rounding = model_->rounding();
  const bool is_known = asked != 0 && asked <= bytes;
  const ArenaModel::Request request{is_known ? model_->rounded(asked) : bytes, step.on_stream};
  const bool new_segment = fresh_.bytes != 0;
  std::optional<ArenaModel::Piece> piece = model_->find(request);
  if (new_segment) {
    const bool by_rules = request.bytes % rounding == 0 && !piece;
    if (!by_rules || !model_->may_take(request.bytes, fresh_.bytes)) {
      return is_own(address, bytes) && give_own(step);
    }
  } else if (!piece || request.bytes % rounding != 0) {
    return false;
  }
  uint64_t least = model_->largest_below(request) + rounding;
  if (new_segment) {
    piece = model_->add_segment(fresh_.address, fresh_.bytes, request);
    segments_[step.block] = fresh_.address;
    fresh_ = {};
  }
  const uint64_t whole = model_->pieces().bytes_of(*piece);
  if (model_->pieces().address_of(*piece) != address) return false;
  if (bytes != (model_->splits(whole, request.bytes) ? request.bytes : whole)) return false;
  step.bytes = request.bytes;
  if (whole == bytes && !is_known) {
    least = std::max(least, model_->least_for_whole(whole, new_segment));
    step.slack = static_cast<uint32_t>(bytes - std::min(least, bytes));
  }
  model_->take(*piece, request);
  return live_.try_emplace(address, Live{step.block, *piece, 0}).second;
}

void ArenaRequests::given(uint64_t address, uint64_t bytes, uint64_t asked, uint32_t site) {
  Step step{.bytes = bytes, .block = blocks_++, .what = What::kGive, .on_stream = running_};
  if (!why_not_.empty()) return;
  if (emptying_ && model_->pieces().has_idle_segment()) {
    return give_up("it gave back some idle segments and kept others");
  }
  emptying_ = false;
  if (bytes == 0 || !repeats(address, bytes, asked, step)) {
    return give_up(
        fmt::format("the block of its request {} lies elsewhere by the known rules", blocks_));
  }
  ++repeated_;
  knows_all_ = knows_all_ && step.slack == 0;
  sites_.push_back(site);
  add(step);
}

/// For a request of which the log does not tell the size: finds the largest size that other
/// requests of its site had and that this one may have had.
void ArenaRequests::find_likely() {
  const auto asks = [](const Step& step) { return step.what == What::kGive; };
  std::unordered_map<uint32_t, std::set<uint64_t>> known;  // by site
  for (const Step& step : steps_) {
    if (asks(step) && step.slack == 0) known[sites_[step.block]].insert(step.bytes);
  }
  for (Step& step : steps_) {
    if (!asks(step) || step.slack == 0) continue;
    const std::set<uint64_t>& sizes = known[sites_[step.block]];
    const auto above = sizes.upper_bound(step.bytes);
    if (above == sizes.begin()) continue;
    const uint64_t less = step.bytes - *std::prev(above);
    if (less <= step.slack) step.likely = static_cast<uint32_t>(less);
  }
}

void ArenaRequests::taken(uint64_t address) {
  if (!why_not_.empty()) return;
  const auto block = live_.find(address);
  if (block == live_.end()) return give_up("a block came back that it had not given");
  const Live live = block->second;
  live_.erase(block);
  if (live.own != 0) {
    model_->pieces().drop_own(live.own);
    return add({.bytes = live.own, .block = live.block, .what = What::kTakeOwn});
  }
  model_->pieces().put_back(live.piece);
  add({.block = live.block, .what = What::kTake});
}

void ArenaRequests::begin_run() {
  if (running_) give_up("runs overlap, each with streams of its own");
  running_ = true;
}

void ArenaRequests::end_run() {
  running_ = false;
  if (!why_not_.empty()) return;
  model_->pieces().forget_kinds();
  add({.what = What::kEndRun});
}

void ArenaRequests::others_have(uint64_t bytes) {
  if (bytes == others_ && !open_.empty()) return;
  others_ = bytes;
  if (!why_not_.empty()) return;
  open_.push_back(steps_.size());
  add({.bytes = bytes, .what = What::kOutside});
}

void ArenaRequests::driver_had(uint64_t bytes) {
  if (why_not_.empty()) {
    for (const size_t step : open_) steps_[step].bytes += bytes;
  }
  open_.clear();
  others_have(others_);
}

void ArenaRequests::at_once(uint64_t bytes) {
  if (!why_not_.empty()) return;
  add({.bytes = bytes, .what = What::kOutside});
  open_.push_back(steps_.size());
  add({.bytes = others_, .what = What::kOutside});
}

void ArenaRequests::finish(uint64_t start) {
  if (fresh_.bytes != 0) give_up("it took memory that it did not share out");
  if (emptying_ && model_->pieces().has_idle_segment()) {
    give_up("it gave back some idle segments and kept others");
  }
  if (blocks_ == 0) give_up("it was asked for nothing");
  find_likely();
  sites_ = {};
  for (Step& step : steps_) {
    if (step.what == What::kOutside) step.bytes += start;
  }
}

}  // namespace gpupeak::collector
