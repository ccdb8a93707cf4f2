// The instances of a repeated phase, folded as they end: neighbours that are alike share a row, odd
// ones have their own. However often a phase is repeated, there are at most kMaxRows rows.
// PhaseTree fills it, the summary reads it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpupeak::collector {

enum PhaseSide : uint8_t { kDeviceSide = 0, kHostSide = 1 };
inline constexpr size_t kPhaseSides = 2;

/// What the instances of one row were like, on one side.
struct FoldSide {
  uint64_t start_bytes = 0;  ///< at the begin of the first
  uint64_t peak_bytes = 0;   ///< the largest
  uint64_t end_bytes = 0;    ///< at the end of the last
  int64_t kept_bytes = 0;    ///< what the bytes owned grew by, of all together
  uint64_t alloc_count = 0;  ///< of all together
  // The range of what tells instances apart: what was retained (end - start), and how far the peak
  // rose above the start.
  int64_t least_retained = 0, most_retained = 0;
  int64_t least_rise = 0, most_rise = 0;
};

struct FoldRow {
  uint64_t first = 0, last = 0;  ///< numbers of instances, from 1 on in the order of their begins
  uint64_t count = 0;            ///< less than last - first + 1 where instances overlapped
  uint64_t begin_ticks = 0, end_ticks = 0;
  uint64_t open_ticks = 0;  ///< of all together
  bool open = false;        ///< one of them had no end before the log's
  std::array<FoldSide, kPhaseSides> sides;

  /// Whether all instances are the same, but for what is_alike() says is too little to matter.
  bool is_alike() const;
};

class PhaseFold {
 public:
  static constexpr size_t kMaxRows = 16;

  /// `instance` is a row of one.
  void add(const FoldRow& instance);
  /// In the order of their begins. What can be joined without a loss is joined.
  std::vector<FoldRow> rows() const;

 private:
  std::vector<FoldRow> rows_;
};

}  // namespace gpupeak::collector
