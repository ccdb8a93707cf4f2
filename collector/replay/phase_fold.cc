#include "collector/replay/phase_fold.h"

#include <algorithm>

namespace gpupeak::collector {
namespace {

/// The heap of real programs differs a little from instance to instance; device memory does not.
constexpr int64_t kHostNoiseBytes = 64 << 10;
constexpr int64_t kHostNoisePart = 64;

/// Exact for all `least` <= `most`, even as far apart as in a damaged log.
uint64_t distance(int64_t least, int64_t most) {
  return static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
}

/// How far apart the instances of a row are.
uint64_t width(const FoldRow& row) {
  uint64_t widest = 0;
  for (const FoldSide& side : row.sides) {
    widest = std::max({widest, distance(side.least_retained, side.most_retained),
                       distance(side.least_rise, side.most_rise)});
  }
  return widest;
}

void join(FoldSide& to, const FoldSide& next) {
  to.peak_bytes = std::max(to.peak_bytes, next.peak_bytes);
  to.end_bytes = next.end_bytes;
  to.kept_bytes = wrapping_sum(to.kept_bytes, next.kept_bytes);
  to.alloc_count += next.alloc_count;
  to.least_retained = std::min(to.least_retained, next.least_retained);
  to.most_retained = std::max(to.most_retained, next.most_retained);
  to.least_rise = std::min(to.least_rise, next.least_rise);
  to.most_rise = std::max(to.most_rise, next.most_rise);
}

FoldRow joined(const FoldRow& row, const FoldRow& next) {
  FoldRow both = row;
  if (next.first < row.first) {
    for (size_t side = 0; side < kPhaseSides; ++side)
      both.sides[side].start_bytes = next.sides[side].start_bytes;
  }
  both.first = std::min(row.first, next.first);
  both.last = std::max(row.last, next.last);
  both.count += next.count;
  both.begin_ticks = std::min(row.begin_ticks, next.begin_ticks);
  both.end_ticks = std::max(row.end_ticks, next.end_ticks);
  both.open_ticks += next.open_ticks;
  both.open = row.open || next.open;
  for (size_t side = 0; side < kPhaseSides; ++side) join(both.sides[side], next.sides[side]);
  return both;
}

/// How much the range of a row grows if these two are joined.
uint64_t loss(const FoldRow& row, const FoldRow& next) {
  return width(joined(row, next)) - std::max(width(row), width(next));
}

}  // namespace

bool FoldRow::is_alike() const {
  for (size_t i = 0; i < kPhaseSides; ++i) {
    const FoldSide& side = sides[i];
    const auto noise = static_cast<uint64_t>(
        i == kHostSide ? std::max(kHostNoiseBytes, side.most_rise / kHostNoisePart) : 0);
    if (distance(side.least_retained, side.most_retained) > noise) return false;
    if (distance(side.least_rise, side.most_rise) > noise) return false;
  }
  return true;
}

void PhaseFold::add(const FoldRow& instance) {
  if (!rows_.empty()) {
    const FoldRow both = joined(rows_.back(), instance);
    const bool swallowed = !rows_.back().is_alike() && loss(rows_.back(), instance) == 0;
    if (both.is_alike() || swallowed) {
      rows_.back() = both;
      return;
    }
  }
  rows_.push_back(instance);
  if (rows_.size() <= kMaxRows) return;
  // Joins the two neighbours that differ least; of equal ones, those with the fewest instances.
  size_t best = 0;
  const auto cost = [&](size_t i) {
    return std::pair(loss(rows_[i], rows_[i + 1]), rows_[i].count + rows_[i + 1].count);
  };
  for (size_t i = 1; i + 1 < rows_.size(); ++i) {
    if (cost(i) < cost(best)) best = i;
  }
  rows_[best] = joined(rows_[best], rows_[best + 1]);
  rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
}

std::vector<FoldRow> PhaseFold::rows() const {
  std::vector<FoldRow> rows;
  for (const FoldRow& row : rows_) {
    const bool lossless = !rows.empty() && !rows.back().is_alike() && loss(rows.back(), row) == 0;
    if (lossless) {
      rows.back() = joined(rows.back(), row);
    } else {
      rows.push_back(row);
    }
  }
  // Instances in several threads may end in another order than they began.
  std::ranges::stable_sort(rows, {}, &FoldRow::first);
  return rows;
}

}  // namespace gpupeak::collector
