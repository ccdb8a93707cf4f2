// The history of one arena on one device: all its requests in their order, and what everybody else
// had of the device meanwhile. With it one can simulate the run with less memory. That is only
// right if the rules of the ArenaModel give each block the very address that it had. What the rules
// do not know (other streams, graphs' arenas, settings, other releases) shows in an address sooner
// or later, and `why_not()` says so. NeedWatch fills the history.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
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
#include "gpupeak/pages.h"

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
    if (emptying_ && model_->pieces().has_idle_segment())
      return give_up("it gave back some idle segments and kept others");
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
    if (emptying_ && model_->pieces().has_idle_segment())
      give_up("it gave back some idle segments and kept others");
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
  uint64_t segment_of(uint32_t block) const { return value_or(segments_, block, 0); }

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
      if (!by_rules || !model_->may_take(request.bytes, fresh_.bytes))
        return is_own(address, bytes) && give_own(step);
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
    if (steps_.size() == kMostSteps)
      return give_up(fmt::format("more than {} steps of it were recorded", kMostSteps));
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

// What an arena would have reserved if its requests or its rules had been others, or if there had
// been less memory (need.h). It goes through the recorded history of requests
// (ArenaRequests) once more.
//
// If a block got a whole piece, a log of PyTorch does not tell how much was asked for. So a
// forecast takes the most that it can have been, the least, a mix, or what other requests of the
// same site asked for. what_if_watch.h runs some forecasts of each kind.

class ArenaForecast {
 public:
  enum class Rules : uint8_t { kAsRecorded, kSameAsRequested, kExpandableSegments };
  enum class Asked : uint8_t { kMost, kLeast, kLikely, kMixed };

  /// What expandable segments grow by for large requests.
  static constexpr uint64_t kGrowingStep = 20u << 20;

  /// `history`: one whose why_not() is empty; it must outlive the forecast. `mix`: forecasts with
  /// Asked::kMixed differ by this number. `capacity`: what there is for the process. `places`: new
  /// segments lie above all others, or with kLeast below them.
  ArenaForecast(const ArenaRequests& history, Rules rules, Asked asked, unsigned mix,
                uint64_t capacity = UINT64_MAX, Asked places = Asked::kMost)
      : history_(history),
        rules_(rules),
        asked_(asked),
        places_(places),
        mix_(mix),
        capacity_(capacity),
        model_(model_of(history, rules)),
        blocks_(history.requests()) {
    if (rules != Rules::kExpandableSegments) return;
    for (const SegmentPieces::Kind kind : {0, 1})
      model_->pieces().add_segment(kRangeBegins[kind], kEndless, kind);
  }

  /// The next request of the history, times `factor`; 0: it is left out. Returns the bytes of its
  /// block.
  uint64_t give(double factor) {
    const Step* const step = next(true);
    if (step == nullptr || factor == 0) return 0;
    give(*step, factor);
    return blocks_[step->block].bytes;
  }
  /// The next block that came back.
  void take() {
    if (const Step* const step = next(false)) put_back(blocks_[step->block]);
  }
  /// A block comes back earlier than recorded; take() then does nothing for it. Blocks are numbered
  /// in the order in which they were given.
  void take_early(uint32_t block) { put_back(blocks_[block]); }
  /// Does what comes before the next request or return: the arena gives idle segments back.
  void catch_up() {
    const auto& steps = history_.steps();
    while (at_ < steps.size() && !gives(steps[at_]) && !takes(steps[at_])) go_on(steps[at_++]);
  }
  /// Goes through the whole history. Returns false where the capacity is too little.
  bool run() {
    return std::ranges::all_of(history_.steps(), [&](const Step& step) {
      if (gives(step)) return give(step, 1);
      if (!takes(step)) return go_on(step);
      put_back(blocks_[step.block]);
      return true;
    });
  }
  /// The most that was in use of the capacity, in whole pages.
  uint64_t needed() const { return needed_; }
  /// Bytes that it has from the driver, as it asked for them.
  uint64_t reserved() const {
    if (rules_ == Rules::kExpandableSegments) return mapped_[0] + mapped_[1];
    return model_->pieces().reserved_bytes();
  }

 private:
  /// No address has these bits. They put segments that were not recorded above or below those that
  /// were.
  static constexpr uint64_t kRecorded = UINT64_C(1) << 61, kAbove = UINT64_C(1) << 62;

  // PyTorch's segments that grow in place (expandable_segments:True): one range of addresses for
  // large requests and one for small ones, which grow by handles of these sizes. A request gets the
  // smallest idle piece that is large enough, and the rest of it stays idle. The last piece is
  // endless, so it is taken where no other is large enough.
  static constexpr uint64_t kRangeBegins[] = {kRecorded, kAbove}, kEndless = UINT64_C(1) << 60;
  static constexpr uint64_t kHandles[] = {kGrowingStep, 2u << 20};

  static std::unique_ptr<ArenaModel> model_of(const ArenaRequests& history, Rules rules) {
    if (rules == Rules::kSameAsRequested)
      return std::make_unique<BfcArena>(BfcArena::Extends::kSameAsRequested);
    return history.rules();
  }
  struct Block {
    uint64_t bytes = 0;  // 0: left out
    ArenaModel::Piece piece = 0;
    bool own = false;
  };
  using Step = ArenaRequests::Step;
  using What = ArenaRequests::What;

  static bool gives(const Step& step) {
    return step.what == What::kGive || step.what == What::kGiveOwn;
  }
  static bool takes(const Step& step) {
    return step.what == What::kTake || step.what == What::kTakeOwn;
  }

  /// The next step, if it gives a block (`is_give`) or takes one back; nullptr: it does not. Steps
  /// of other kinds before it are done on the way.
  const Step* next(bool is_give) {
    catch_up();
    if (at_ == history_.steps().size() || gives(history_.steps()[at_]) != is_give) return nullptr;
    return &history_.steps()[at_++];
  }
  /// Does a step that is no request and no return.
  bool go_on(const Step& step) {
    if (step.what == What::kEndRun && rules_ != Rules::kExpandableSegments)
      model_->pieces().forget_kinds();
    if (step.what == What::kEmpty) model_->pieces().release_idle();
    if (step.what == What::kOutside) outside_ = step.bytes;
    return has_room(0);
  }
  bool has_room(uint64_t more) {
    const uint64_t sum = outside_ + model_->pieces().reserved() + whole_driver_pages(more);
    if (sum > capacity_) return false;
    needed_ = std::max(needed_, sum);
    return true;
  }
  void put_back(Block& block) {
    if (block.bytes == 0) return;
    if (block.own) {
      model_->pieces().drop_own(block.bytes);
    } else {
      model_->pieces().put_back(block.piece);
    }
    block.bytes = 0;
  }
  bool is_high(Asked choice, uint32_t block) const {
    return choice == Asked::kMixed ? is_high_in_mix(block, mix_) : choice == Asked::kMost;
  }
  uint64_t less_than_most(const Step& step) const {
    if (asked_ == Asked::kLikely) return step.likely;
    return is_high(asked_, step.block) ? 0 : step.slack;
  }
  uint64_t asked_for(const Step& step, double factor) const {
    const uint64_t bytes = step.bytes - less_than_most(step);
    if (factor == 1) return bytes;
    return model_->rounded(static_cast<uint64_t>(std::floor(static_cast<double>(bytes) * factor)));
  }
  bool give(const Step& step, double factor) {
    Block& block = blocks_[step.block];
    block.bytes = asked_for(step, factor);
    if (step.what == What::kGive) return place(step, block);
    block.own = true;
    if (!has_room(block.bytes)) return false;
    model_->pieces().add_own(block.bytes);
    return true;
  }
  bool place(const Step& step, Block& block) {
    const ArenaModel::Request request{block.bytes, step.on_stream};
    std::optional<ArenaModel::Piece> piece = model_->find(request);
    if (rules_ == Rules::kExpandableSegments) {
      const SegmentPieces::Kind kind = model_->kinds_of(request).in_use;
      block.piece = *piece;
      model_->pieces().take(block.piece, block.bytes, kind);
      const uint64_t end = model_->pieces().address_of(*piece) + block.bytes - kRangeBegins[kind];
      const uint64_t handles = (end + kHandles[kind] - 1) / kHandles[kind];
      mapped_[kind] = std::max(mapped_[kind], handles * kHandles[kind]);
      return true;
    }
    as_recorded_ = as_recorded_ && piece.has_value() == (history_.segment_of(step.block) == 0);
    if (!piece) {
      uint64_t segment = model_->segment_for(block.bytes);
      for (unsigned refusals = 1; !has_room(segment); ++refusals) {
        as_recorded_ = false;
        segment = model_->after_refusal(block.bytes, segment, refusals);
        if (segment == 0) return false;
      }
      piece = model_->add_segment(address_for(step.block, segment), segment, request);
    }
    model_->take(*piece, request);
    block.piece = *piece;
    block.bytes = model_->pieces().bytes_of(*piece);
    return true;
  }
  uint64_t address_for(uint32_t block, uint64_t bytes) {
    if (as_recorded_) return kRecorded + history_.segment_of(block);
    if (!is_high(places_, block)) return below_ -= bytes;
    above_ += bytes;
    return above_ - bytes;
  }

  const ArenaRequests& history_;
  const Rules rules_;
  const Asked asked_, places_;
  const unsigned mix_;
  const uint64_t capacity_;
  std::unique_ptr<ArenaModel> model_;
  uint64_t mapped_[2] = {};  // of the ranges of expandable segments
  std::vector<Block> blocks_;
  size_t at_ = 0;
  bool as_recorded_ = true;  // each segment so far was taken by the request that took it in the log
  uint64_t outside_ = 0, needed_ = 0;
  uint64_t above_ = kAbove, below_ = kRecorded;
};

}  // namespace gpupeak::collector
