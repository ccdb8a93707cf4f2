// ONNX Runtime's arena (best fit with coalescing) by its rules, as 1.29 has them: requests are
// rounded to 256 bytes, and get the smallest idle piece that is large enough, whole unless half of
// it or 128 MiB would be left over. Regions:
//
//   kNextPowerOfTwo    of 1 MiB, doubled until the request fits; if it did at once, the next one is
//                      twice as large, or of 1 GiB from there on (in older releases: without that
//                      bound)
//   kSameAsRequested   as large as the request
//
// A piece that was in use for a stream belongs to the stream until the run ends, also when it is
// idle: it joins no other pieces, and only requests for that stream get it. The model has one
// stream at a time: all requests during a run are for it.
//
// When the driver refuses, it asks for a tenth less and less, down to the request. Nothing goes
// back before its end, except blocks that were reserved: they have memory of their own.
#pragma once

#include <vector>

#include "collector/fit/arena_model.h"

namespace gpupeak::collector {

class BfcArena final : public ArenaModel {
 public:
  enum class Extends : uint8_t { kNextPowerOfTwo, kSameAsRequested };
  /// A log does not say how the arena grows. All ways are possible until a segment contradicts one.
  explicit BfcArena(Extends extends);
  std::unique_ptr<ArenaModel> fresh() const override;
  uint64_t rounding() const override { return 256; }
  // Pieces of the stream are of kind 1.
  SegmentPieces::Kinds kinds_for(const Request& request) const override {
    return request.on_stream ? 3 : 1;
  }
  SegmentPieces::Kind kind_in_use(const Request& request) const override {
    return request.on_stream ? 1 : 0;
  }
  SegmentPieces::Kind kind_of_segment(const Request& /*request*/) const override { return 0; }
  bool splits(uint64_t piece_bytes, uint64_t bytes) const override;
  uint64_t least_for_whole(uint64_t piece_bytes, bool new_segment) const override;
  bool may_take(uint64_t bytes, uint64_t segment_bytes) override;
  bool has_own_segments() const override { return true; }
  uint64_t segment_for(uint64_t bytes) override;
  uint64_t after_refusal(uint64_t bytes, uint64_t segment_bytes, unsigned refusals) override;
  std::string_view when_refused() const override;

 private:
  /// How regions grow.
  struct Growth {
    /// The most that `next` becomes if no request needs more; 0: regions are as large as requests.
    uint64_t bound;
    uint64_t next = 0;  ///< size of the next region
    uint64_t region_for(uint64_t bytes);
  };
  explicit BfcArena(std::vector<Growth> growths) : growths_(std::move(growths)) {}

  std::vector<Growth> growths_;  // not yet contradicted; never empty
};

}  // namespace gpupeak::collector
