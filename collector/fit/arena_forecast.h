// What an arena would have reserved if its requests or its rules had been others. It goes through
// the recorded history of requests (arena_requests.h) once more, with as much memory as it wants.
//
// If a block got a whole piece, a log of PyTorch does not tell how much was asked for. So a
// forecast takes the most that it can have been, the least, a mix, or what other requests of the
// same site asked for. what_if_watch.cc runs some forecasts of each kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
  ArenaForecast(const ArenaRequests& history, Rules rules, Asked asked, unsigned mix);

  /// The next request of the history, times `factor`; 0: it is left out. Returns the bytes of its
  /// block.
  uint64_t give(double factor);
  /// The next block that came back.
  void take();
  /// A block comes back earlier than recorded; take() then does nothing for it. Blocks are numbered
  /// in the order in which they were given.
  void take_early(uint32_t block) { put_back(blocks_[block]); }
  /// Does what comes before the next request or return: the arena gives idle segments back.
  void catch_up();
  /// Bytes that it has from the driver, as it asked for them.
  uint64_t reserved() const;

 private:
  struct Block {
    uint64_t bytes = 0;  // 0: left out
    uint64_t address = 0;
    ArenaModel::Piece piece = 0;
    bool own = false, small = false;
  };
  using Step = ArenaRequests::Step;

  const Step* next(bool gives);
  void put_back(Block& block);
  uint64_t less_than_most(const Step& step) const;
  uint64_t asked_for(const Step& step, double factor) const;
  void place(const Step& step, uint64_t bytes, Block& block);

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
