// What an arena would have reserved if its requests or its rules had been others, or if there had
// been less memory (need.h). It goes through the recorded history of requests
// (arena_requests.h) once more.
//
// If a block got a whole piece, a log of PyTorch does not tell how much was asked for. So a
// forecast takes the most that it can have been, the least, a mix, or what other requests of the
// same site asked for. what_if_watch.h runs some forecasts of each kind.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collector/fit/arena_model.h"
#include "collector/fit/arena_requests.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {

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
