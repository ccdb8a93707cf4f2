#include "collector/fit/arena_forecast.h"

#include <algorithm>
#include <cmath>

#include "collector/fit/arena_model.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kPlaceAsRecorded = UINT64_C(1) << 61;

std::unique_ptr<ArenaModel> model_of(const ArenaRequests& history, ArenaForecast::Rules rules) {
  if (rules == ArenaForecast::Rules::kSameAsRequested)
    return std::make_unique<BfcArena>(BfcArena::Extends::kSameAsRequested);
  return history.rules();
}

}  // namespace

ArenaForecast::ArenaForecast(const ArenaRequests& history, Rules rules, Asked asked, unsigned mix)
    : history_(history),
      rules_(rules),
      asked_(asked),
      mix_(mix),
      model_(model_of(history, rules)),
      blocks_(history.requests()) {}

uint64_t ArenaForecast::less_than_most(const Step& step) const {
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

uint64_t ArenaForecast::asked_for(const Step& step, double factor) const {
  const uint64_t bytes = step.bytes - less_than_most(step);
  if (factor == 1) return bytes;
  return model_->rounded(static_cast<uint64_t>(std::floor(static_cast<double>(bytes) * factor)));
}

void ArenaForecast::place(const Step& step, uint64_t bytes, Block& block) {
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

/// The next step, if it gives a block (`gives`) or takes one back; nullptr: it does not. Steps of
/// other kinds before it are done on the way.
const ArenaRequests::Step* ArenaForecast::next(bool gives) {
  using What = ArenaRequests::What;
  catch_up();
  if (at_ == history_.steps().size()) return nullptr;
  const Step& step = history_.steps()[at_];
  const bool is_give = step.what == What::kGive || step.what == What::kGiveOwn;
  if (is_give != gives) return nullptr;
  ++at_;
  return &step;
}

void ArenaForecast::catch_up() {
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

uint64_t ArenaForecast::give(double factor) {
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

void ArenaForecast::take() {
  if (const Step* const step = next(false)) put_back(blocks_[step->block]);
}

void ArenaForecast::put_back(Block& block) {
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

uint64_t ArenaForecast::reserved() const {
  return small_.mapped() + large_.mapped() + model_->pieces().reserved_bytes();
}

}  // namespace gpupeak::collector
