// Folds the instances of a repeated phase into rows as they end. Neighbours that are alike share a
// row; an odd one has a row of its own. However often a phase is repeated, there are at most
// kMaxRows rows. PhaseTree fills it, the summary reads it.
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
  uint64_t start_bytes = 0;  ///< at the begin of the first instance
  uint64_t peak_bytes = 0;   ///< the largest of all instances
  uint64_t end_bytes = 0;    ///< at the end of the last instance
  int64_t kept_bytes = 0;    ///< by how much the owned bytes grew, in all instances together
  uint64_t alloc_count = 0;  ///< of all together
  // Instances are told apart by two figures: what was retained (end - start), and how far the peak
  // rose above the start. These are the ranges of both.
  int64_t least_retained = 0, most_retained = 0;
  int64_t least_rise = 0, most_rise = 0;
};

struct FoldRow {
  uint64_t first = 0, last = 0;  ///< numbers of instances, from 1 on, by begin
  uint64_t count = 0;            ///< less than last - first + 1 where instances overlapped
  uint64_t begin_ticks = 0, end_ticks = 0;
  uint64_t open_ticks = 0;  ///< of all together
  bool open = false;        ///< one of them had no end before the log's
  std::array<FoldSide, kPhaseSides> sides;

  /// Whether all instances are the same, apart from a little noise on the host side.
  bool is_alike() const;
};

class PhaseFold {
 public:
  static constexpr size_t kMaxRows = 16;

  /// Adds a row that has one instance.
  void add(const FoldRow& instance);
  /// The rows by begin. Rows that can be joined without a loss are joined.
  std::vector<FoldRow> rows() const;

 private:
  std::vector<FoldRow> rows_;
};

}  // namespace gpupeak::collector
