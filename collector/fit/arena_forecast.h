// What an arena would have reserved if its requests or its rules had been others. It goes through
// the recorded history of requests (arena_requests.h) once more, with as much memory as it wants.
//
// If a block got a whole piece, a log of PyTorch does not tell how much was asked for. So a
// forecast takes the most that it can have been, the least, a mix, or what other requests of the
// same site asked for. what_if_watch.h runs some forecasts of each kind.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collector/fit/arena_model.h"
#include "collector/fit/arena_requests.h"

namespace gpupeak::collector {

class ArenaForecast {
 public:
  enum class Rules : uint8_t { kAsRecorded, kSameAsRequested, kExpandableSegments };
  enum class Asked : uint8_t { kMost, kLeast, kLikely, kMixed };

  /// What expandable segments grow by for large requests.
  static constexpr uint64_t kGrowingStep = 20u << 20;

  /// `history`: one whose why_not() is empty; it must outlive the forecast. `mix`: forecasts with
  /// Asked::kMixed differ by this number.
  ArenaForecast(const ArenaRequests& history, Rules rules, Asked asked, unsigned mix)
      : history_(history),
        rules_(rules),
        asked_(asked),
        mix_(mix),
        model_(model_of(history, rules)),
        blocks_(history.requests()) {}

  /// The next request of the history, times `factor`; 0: it is left out. Returns the bytes of its
  /// block.
  uint64_t give(double factor) {
    const Step* const step = next(true);
    if (step == nullptr || factor == 0) return 0;
    Block& block = blocks_[step->block];
    if (step->what == ArenaRequests::What::kGiveOwn) {
      block.own = true;
      block.bytes = asked_for(*step, factor);
      model_->pieces().add_own(block.bytes);
    } else {
      place(*step, asked_for(*step, factor), block);
    }
    return block.bytes;
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
    using What = ArenaRequests::What;
    for (; at_ < history_.steps().size(); ++at_) {
      switch (history_.steps()[at_].what) {
        case What::kOutside:
          break;
        case What::kEndRun:
          model_->pieces().forget_kinds();
          break;
        case What::kEmpty:
          model_->pieces().release_idle();
          break;
        default:
          return;
      }
    }
  }
  /// Bytes that it has from the driver, as it asked for them.
  uint64_t reserved() const {
    return small_.mapped() + large_.mapped() + model_->pieces().reserved_bytes();
  }

 private:
  static constexpr uint64_t kPlaceAsRecorded = UINT64_C(1) << 61;

  static std::unique_ptr<ArenaModel> model_of(const ArenaRequests& history, Rules rules) {
    if (rules == Rules::kSameAsRequested)
      return std::make_unique<BfcArena>(BfcArena::Extends::kSameAsRequested);
    return history.rules();
  }
  struct Block {
    uint64_t bytes = 0;  // 0: left out
    uint64_t address = 0;
    ArenaModel::Piece piece = 0;
    bool own = false, small = false;
  };
  using Step = ArenaRequests::Step;

  /// The next step, if it gives a block (`gives`) or takes one back; nullptr: it does not. Steps of
  /// other kinds before it are done on the way.
  const Step* next(bool gives) {
    using What = ArenaRequests::What;
    catch_up();
    if (at_ == history_.steps().size()) return nullptr;
    const Step& step = history_.steps()[at_];
    const bool is_give = step.what == What::kGive || step.what == What::kGiveOwn;
    if (is_give != gives) return nullptr;
    ++at_;
    return &step;
  }
  void put_back(Block& block) {
    if (block.bytes == 0) return;
    if (block.own) {
      model_->pieces().drop_own(block.bytes);
    } else if (rules_ == Rules::kExpandableSegments) {
      (block.small ? small_ : large_).take_back(block.address, block.bytes);
    } else {
      model_->pieces().put_back(block.piece);
    }
    block.bytes = 0;
  }
  uint64_t less_than_most(const Step& step) const {
    switch (asked_) {
      case Asked::kMost:
        return 0;
      case Asked::kLeast:
        return step.slack;
      case Asked::kLikely:
        return step.likely;
      case Asked::kMixed:
        break;
    }
    return is_high_in_mix(step.block, mix_) ? 0 : step.slack;
  }
  uint64_t asked_for(const Step& step, double factor) const {
    const uint64_t bytes = step.bytes - less_than_most(step);
    if (factor == 1) return bytes;
    return model_->rounded(static_cast<uint64_t>(std::floor(static_cast<double>(bytes) * factor)));
  }
  void place(const Step& step, uint64_t bytes, Block& block) {
    block.bytes = bytes;
    if (rules_ == Rules::kExpandableSegments) {
      block.small = bytes <= TorchCache::kSmall;
      block.address = (block.small ? small_ : large_).give(bytes);
      return;
    }
    const ArenaModel::Request request{bytes, step.on_stream};
    std::optional<ArenaModel::Piece> piece = model_->find(request);
    const uint64_t recorded = history_.segment_of(step.block);
    as_recorded_ = as_recorded_ && piece.has_value() == (recorded == 0);
    if (!piece) {
      const uint64_t segment = model_->segment_for(bytes);
      uint64_t address = kPlaceAsRecorded + recorded;
      if (!as_recorded_) {
        address = above_;
        above_ += segment;
      }
      piece = model_->add_segment(address, segment, request);
    }
    model_->take(*piece, request);
    block.piece = *piece;
    block.bytes = model_->pieces().bytes_of(*piece);
  }

  const ArenaRequests& history_;
  const Rules rules_;
  const Asked asked_;
  const unsigned mix_;
  std::unique_ptr<ArenaModel> model_;
  GrowingRange small_{2u << 20}, large_{kGrowingStep};  // only for expandable segments
  std::vector<Block> blocks_;
  size_t at_ = 0;
  bool as_recorded_ = true;  // each segment so far was taken by the request that took it in the log
  uint64_t above_ = UINT64_C(1) << 62;
};

}  // namespace gpupeak::collector
