#include "collector/fit/held_run.h"

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "gpupeak/pages.h"

namespace gpupeak::collector {
namespace {

/// All variants together may go through so many steps, some seconds.
constexpr uint64_t kMostWork = 30'000'000;
/// If that is too little to try every capacity at which the run goes another way, they are at most
/// this far apart.
constexpr uint64_t kCoarsest = 8u << 20;
/// No address has these bits. They put segments that were not recorded above or below those that
/// were.
constexpr uint64_t kRecorded = UINT64_C(1) << 61, kAbove = UINT64_C(1) << 62;

enum class Choice { kHigh, kLow, kMixed };

bool is_high(Choice choice, uint64_t number, unsigned variant) {
  return choice == Choice::kMixed ? is_high_in_mix(number, variant) : choice == Choice::kHigh;
}

class Holding {
 public:
  Holding(const ArenaRequests& history, uint64_t capacity, unsigned variant)
      : history_(history),
        capacity_(capacity),
        variant_(variant),
        requests_(variant >= 4       ? Choice::kMixed
                  : variant % 2 == 0 ? Choice::kHigh
                                     : Choice::kLow),
        places_(variant >= 4       ? Choice::kMixed
                : variant / 2 == 0 ? Choice::kHigh
                                   : Choice::kLow),
        model_(history.rules()),
        blocks_(history.requests()) {}

  HeldRun run() {
    for (const ArenaRequests::Step& step : history_.steps()) {
      if (!take(step)) return {false, needed_};
    }
    return {true, needed_};
  }

 private:
  bool has_room(uint64_t more) {
    const uint64_t sum = outside_ + model_->pieces().reserved() + whole_driver_pages(more);
    if (sum > capacity_) return false;
    needed_ = std::max(needed_, sum);
    return true;
  }

  bool give(const ArenaRequests::Step& step) {
    const bool most = step.slack == 0 || is_high(requests_, step.block, variant_);
    const uint64_t bytes = most ? step.bytes : step.bytes - step.slack;
    const ArenaModel::Request request{bytes, step.on_stream};
    std::optional<ArenaModel::Piece> piece = model_->find(request);
    if (!piece) {
      uint64_t segment = model_->segment_for(bytes);
      for (unsigned refusals = 1; !has_room(segment); ++refusals) {
        as_recorded_ = false;
        segment = model_->after_refusal(bytes, segment, refusals);
        if (segment == 0) return false;
      }
      piece = model_->add_segment(place(step.block, segment), segment, request);
    }
    model_->take(*piece, request);
    blocks_[step.block] = *piece;
    return true;
  }

  bool give_own(uint64_t bytes) {
    if (!has_room(bytes)) return false;
    model_->pieces().add_own(bytes);
    return true;
  }

  uint64_t place(uint32_t block, uint64_t bytes) {
    if (as_recorded_) return kRecorded + history_.segment_of(block);
    if (!is_high(places_, block, variant_)) return below_ -= bytes;
    above_ += bytes;
    return above_ - bytes;
  }

  bool take(const ArenaRequests::Step& step) {
    switch (step.what) {
      case ArenaRequests::What::kGive:
        return give(step);
      case ArenaRequests::What::kTake:
        model_->pieces().put_back(blocks_[step.block]);
        return true;
      case ArenaRequests::What::kGiveOwn:
        return give_own(step.bytes);
      case ArenaRequests::What::kTakeOwn:
        model_->pieces().drop_own(step.bytes);
        return true;
      case ArenaRequests::What::kEndRun:
        model_->pieces().forget_kinds();
        return true;
      case ArenaRequests::What::kEmpty:
        model_->pieces().release_idle();
        return true;
      case ArenaRequests::What::kOutside:
        outside_ = step.bytes;
        return has_room(0);
    }
    return false;
  }

  const ArenaRequests& history_;
  const uint64_t capacity_;
  const unsigned variant_;
  const Choice requests_, places_;
  const std::unique_ptr<ArenaModel> model_;
  std::vector<ArenaModel::Piece> blocks_;
  uint64_t outside_ = 0, needed_ = 0;
  uint64_t above_ = kAbove, below_ = kRecorded;
  bool as_recorded_ = true;  ///< nothing was refused yet
};

/// The amounts with which one variant fails. It tries `runs` amounts, each at least `apart` below
/// the one before, or where the run goes another way.
std::optional<std::vector<FitRange>> fails_of(const ArenaRequests& history, uint64_t least,
                                              uint64_t most, uint64_t runs, uint64_t apart,
                                              unsigned variant) {
  std::vector<FitRange> fails;
  uint64_t known = most + 1;  // from this amount on the answer is known
  bool fits = true;           // whether the run fits there
  for (uint64_t i = 0; i < runs && known > least; ++i) {
    const uint64_t capacity = known - std::min(known, known > most ? 1 : apart);
    const HeldRun run = Holding(history, capacity, variant).run();
    if (known > most && !run.fits) return std::nullopt;
    // Amounts between two that were tried count as the worse of them.
    if (!run.fits) {
      fails.push_back({run.needed, known});
    } else if (!fits && capacity + 1 < known) {
      fails.push_back({capacity + 1, known});
    }
    known = run.needed;
    fits = run.fits;
  }
  if (known > least) fails.push_back({0, known});
  return fails;
}

}  // namespace

HeldRun hold(const ArenaRequests& history, uint64_t capacity, unsigned variant) {
  return Holding(history, capacity, variant).run();
}

std::optional<std::vector<FitRange>> fails_for(const ArenaRequests& history, uint64_t least,
                                               uint64_t most) {
  const uint64_t runs =
      kMostWork / kHeldRunVariants / std::max<uint64_t>(history.steps().size(), 1) + 1;
  // Runs go another way where a segment has room or not, so the amounts are some pages apart.
  const uint64_t span = most - std::min(least, most);
  const uint64_t apart = span / runs < kDriverPageBytes ? 1 : std::min(span / runs, kCoarsest);
  std::vector<std::future<std::optional<std::vector<FitRange>>>> variants;
  for (unsigned variant = 0; variant < kHeldRunVariants; ++variant) {
    variants.push_back(std::async(std::launch::async | std::launch::deferred, fails_of,
                                  std::cref(history), least, most, runs, apart, variant));
  }
  std::vector<FitRange> all{{0, least}};
  bool contradicts = false;
  for (auto& variant : variants) {
    const std::optional<std::vector<FitRange>> fails = variant.get();
    if (fails) {
      all.insert(all.end(), fails->begin(), fails->end());
    } else {
      contradicts = true;
    }
  }
  if (contradicts) return std::nullopt;
  return joined(std::move(all));
}

}  // namespace gpupeak::collector
