// PyTorch's caching allocator by its rules: those of its releases since 2019, for one stream,
// without graphs' arenas, segments that grow in place and limits of its own.
//
//   request        rounded to   segment                        rest is split off
//   up to 1 MiB    512 bytes    2 MiB, of the small ones       from 512 bytes on
//   below 10 MiB   512 bytes    20 MiB                         beyond 1 MiB
//   others         512 bytes    as large, in steps of 2 MiB    beyond 1 MiB
//
// When it is refused memory it gives back all segments that are wholly idle, and asks again.
#pragma once

#include "collector/fit/arena_model.h"

namespace gpupeak::collector {

class TorchCache final : public ArenaModel {
 public:
  std::unique_ptr<ArenaModel> fresh() const override { return std::make_unique<TorchCache>(); }
  uint64_t rounding() const override { return 512; }
  // Segments for small requests are of kind 1, and serve no others.
  SegmentPieces::Kinds kinds_for(const Request& request) const override;
  SegmentPieces::Kind kind_in_use(const Request& request) const override;
  SegmentPieces::Kind kind_of_segment(const Request& request) const override;
  bool splits(uint64_t piece_bytes, uint64_t bytes) const override;
  uint64_t least_for_whole(uint64_t piece_bytes, bool new_segment) const override;
  bool may_take(uint64_t bytes, uint64_t segment_bytes) override;
  uint64_t segment_for(uint64_t bytes) override;
  uint64_t after_refusal(uint64_t bytes, uint64_t segment_bytes, unsigned refusals) override;
  std::string_view when_refused() const override;
};

}  // namespace gpupeak::collector
