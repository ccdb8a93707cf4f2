// The history of one arena on one device: all its requests in their order, and what everybody else
// had of the device meanwhile. With it one can simulate the run with less memory. That is only
// right if the rules of the ArenaModel give each block the very address that it had. What the rules
// do not know (other streams, graphs' arenas, settings, other releases) shows in an address sooner
// or later, and `why_not()` says so. NeedWatch fills the history.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collector/fit/arena_model.h"

namespace gpupeak::collector {

/// In a mix of largest and smallest sizes: whether this block has the largest size that it may have
/// asked for.
inline bool is_high_in_mix(uint64_t block, unsigned mix) {
  uint64_t mixed = (block + 1) * UINT64_C(0x9e3779b97f4a7c15) + mix;
  mixed = (mixed ^ mixed >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
  return (mixed >> 40 & 1) != 0;
}

class ArenaRequests {
 public:
  enum class What : uint8_t {
    kGive,     ///< a request of `bytes`; if the log does not tell its size, of up to `slack` less
    kTake,     ///< `block` comes back
    kGiveOwn,  ///< a request of `bytes` got a segment of its own
    kTakeOwn,  ///< a segment of its own, of `bytes`, goes back
    kEndRun,   ///< memory that was one stream's is free for all
    kEmpty,    ///< the program asked for all idle segments to go back
    kOutside   ///< from here on `bytes` of the device are not this arena's
  };
  struct Step {
    uint64_t bytes = 0;
    uint32_t block = 0;  ///< numbered in the order in which they were given
    uint32_t slack = 0;
    /// `bytes` less this is what other requests of its site asked for; 0: not known.
    uint32_t likely = 0;
    What what = What::kGive;
    bool on_stream = false;  ///< ArenaModel::Request
  };
  /// A longer history is given up.
  static constexpr size_t kMostSteps = 4'000'000;

  explicit ArenaRequests(std::unique_ptr<ArenaModel> model) : model_(std::move(model)) {}

  // What the driver does for the arena.
  void segment_taken(uint64_t address, uint64_t bytes) {
    if (fresh_.bytes != 0) give_up("it took memory that it did not share out");
    fresh_ = {address, bytes};
    reserved_ += whole_driver_pages(bytes);
  }
  void segment_given_back(uint64_t address, uint64_t bytes) {
    reserved_ -= std::min(reserved_, whole_driver_pages(bytes));
    if (!why_not_.empty() || own_.erase(address) == 1) return;
    if (!model_->pieces().release(address, bytes)) {
      give_up("it gave back memory that was in use by the known rules");
    } else if (!emptying_) {
      emptying_ = true;
      add({.what = What::kEmpty});
    }
  }
  // What the arena does.
  /// `asked`: bytes that the request asked for; 0: not known. `site`: requests of one site are
  /// taken to be alike.
  void given(uint64_t address, uint64_t bytes, uint64_t asked = 0, uint32_t site = 0) {
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
  /// Requests from here on are for a stream's work, until the run ends. If two runs overlap, the
  /// history is given up.
  void begin_run() {
    if (running_) give_up("runs overlap, each with streams of its own");
    running_ = true;
  }
  void end_run() {
    running_ = false;
    if (!why_not_.empty()) return;
    model_->pieces().forget_kinds();
    add({.what = What::kEndRun});
  }
  void taken(uint64_t address) {
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
  /// Bytes of the device that are handed out to others, without the driver's own.
  void others_have(uint64_t bytes) {
    if (bytes == others_ && !open_.empty()) return;
    others_ = bytes;
    if (!why_not_.empty()) return;
    open_.push_back(steps_.size());
    add({.bytes = bytes, .what = What::kOutside});
  }
  /// The driver's own memory was no more than this since the last reading.
  void driver_had(uint64_t bytes) {
    if (why_not_.empty()) {
      for (const size_t step : open_) steps_[step].bytes += bytes;
    }
    open_.clear();
    others_have(others_);
  }
  /// Others and the driver itself had so much for an instant.
  void at_once(uint64_t bytes) {
    if (!why_not_.empty()) return;
    add({.bytes = bytes, .what = What::kOutside});
    open_.push_back(steps_.size());
    add({.bytes = others_, .what = What::kOutside});
  }
  /// `start`: what the process had of the device before the first context.
  void finish(uint64_t start) {
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
  /// Gives the history up, and frees it.
  void give_up(std::string why) {
    if (!why_not_.empty()) return;
    why_not_ = std::move(why);
    steps_ = {};
    sites_ = {};
    open_ = {};
    live_ = {};
    own_ = {};
    model_ = model_->fresh();
  }

  /// A model with the rules by which the arena went, for which nothing was asked yet.
  std::unique_ptr<ArenaModel> rules() const { return model_->fresh(); }
  /// Bytes of the driver's memory that the arena has now, in whole pages.
  uint64_t reserved() const { return reserved_; }
  /// Empty: the rules give every block the address that it had.
  const std::string& why_not() const { return why_not_; }
  uint64_t requests() const { return blocks_; }
  /// Whether the log tells of each request how much it asked for.
  bool knows_all_requests() const { return knows_all_; }
  /// How many requests, from the first one on, get the address from the rules that they had.
  uint64_t repeated() const { return repeated_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// Address of the segment that was taken for a block; 0: none was.
  uint64_t segment_of(uint32_t block) const {
    const auto segment = segments_.find(block);
    return segment == segments_.end() ? 0 : segment->second;
  }

 private:
  /// A segment from the driver of which nothing was handed out yet.
  struct Fresh {
    uint64_t address = 0, bytes = 0;
  };
  struct Live {
    uint32_t block;
    ArenaModel::Piece piece;
    uint64_t own;  // bytes of a segment of its own; 0: it has none
  };
  /// Whether the rules give a request this block. If it is not known what was asked for, `step`
  /// gets what it may have been: for a piece that was given whole, more than the largest idle piece
  /// that is smaller, and at most the piece.
  bool repeats(uint64_t address, uint64_t bytes, uint64_t asked, Step& step) {
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
  bool is_own(uint64_t address, uint64_t bytes) const {
    return model_->has_own_segments() && fresh_.address == address && fresh_.bytes == bytes;
  }
  bool give_own(Step& step) {
    const Fresh own = fresh_;
    fresh_ = {};
    step.what = What::kGiveOwn;
    model_->pieces().add_own(own.bytes);
    return own_.insert(own.address).second &&
           live_.try_emplace(own.address, Live{step.block, 0, own.bytes}).second;
  }
  void add(const Step& step) {
    if (!why_not_.empty()) return;
    if (steps_.size() == kMostSteps) {
      return give_up(fmt::format("more than {} steps of it were recorded", kMostSteps));
    }
    steps_.push_back(step);
  }
  /// For a request of which the log does not tell the size: finds the largest size that other
  /// requests of its site had and that this one may have had.
  void find_likely() {
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

  std::unique_ptr<ArenaModel> model_;
  Fresh fresh_;
  std::unordered_set<uint64_t> own_;  // addresses of segments for one block
  bool emptying_ = false, running_ = false;
  std::unordered_map<uint64_t, Live> live_;  // by address
  std::unordered_map<uint32_t, uint64_t> segments_;
  std::vector<Step> steps_;
  std::vector<uint32_t> sites_;  // by block, until it is finished
  std::vector<size_t> open_;     // steps since the last reading, without the driver's own yet
  uint64_t others_ = 0;
  uint64_t reserved_ = 0, repeated_ = 0;
  uint32_t blocks_ = 0;
  bool knows_all_ = true;
  std::string why_not_;
};

}  // namespace gpupeak::collector
