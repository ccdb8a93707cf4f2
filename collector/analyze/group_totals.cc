#include "collector/analyze/group_totals.h"

#include <algorithm>
#include <cmath>

#include "collector/log/event.h"

namespace gpupeak::collector {

GroupTotals::GroupTotals(const Replay& replay) : contexts(replay.sites().contexts().size()) {
  for (GroupId id{}; id < replay.sites().group_count(); ++id) {
    const PeakFinder::Group& group = replay.peaks().group(id);
    OfContext& of = contexts[replay.sites().info(id).context];
    of.alloc_bytes += group.alloc_bytes;
    of.alloc_count += group.alloc_count;
    if (group.max_live_bytes > of.biggest_bytes) {
      of.biggest = id;
      of.biggest_bytes = group.max_live_bytes;
    }
    if (group.live_bytes > 0) live.push_back({id, group.live_bytes, group.live_count});
    if (group.temporary_count > 0)
      temporaries.push_back({id, group.temporary_count, group.temporary_count});
  }
}

void SamplingError::add(uint64_t sample_bytes, uint64_t count) {
  if (sample_bytes == 0 || count == 0) return;
  const auto mean = static_cast<double>(sample_bytes);
  variance_ += mean * mean * static_cast<double>(count);
  mean_ = std::max(mean_, mean);
}

void SamplingError::add(const SamplingError& other) {
  variance_ += other.variance_;
  mean_ = std::max(mean_, other.mean_);
}

std::optional<uint64_t> SamplingError::bytes() const {
  if (mean_ == 0) return std::nullopt;
  constexpr double kDeviations = 1.96;
  const double error = std::ceil(kDeviations * std::sqrt(variance_ + mean_ * mean_) + 2 * mean_);
  // A damaged sample size would give more bytes than anything has.
  return static_cast<uint64_t>(std::min<double>(error, kMaxBlockBytes));
}

}  // namespace gpupeak::collector
