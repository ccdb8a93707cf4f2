#include "collector/analyze/group_totals.h"

#include <algorithm>
#include <cmath>

#include "collector/log/event.h"
#include "collector/log/parallel.h"

namespace gpupeak::collector {
namespace {

void take_biggest(GroupTotals::OfContext& of, GroupId group, uint64_t bytes) {
  if (bytes <= of.biggest_bytes) return;
  of.biggest = group;
  of.biggest_bytes = bytes;
}

GroupTotals part_of(const Replay& replay, size_t begin, size_t end) {
  GroupTotals part;
  part.contexts.resize(replay.sites().contexts().size());
  for (auto id = static_cast<GroupId>(begin); id < end; ++id) {
    const PeakFinder::Group& group = replay.peaks().group(id);
    GroupTotals::OfContext& of = part.contexts[replay.sites().info(id).context];
    of.alloc_bytes += group.alloc_bytes;
    of.alloc_count += group.alloc_count;
    take_biggest(of, id, group.max_live_bytes);
    if (group.live_bytes > 0) part.live.push_back({id, group.live_bytes, group.live_count});
    if (group.temporary_count > 0)
      part.temporaries.push_back({id, group.temporary_count, group.temporary_count});
  }
  return part;
}

/// Joins the lists of all parts, in their order.
std::vector<Contribution> join(const std::vector<GroupTotals>& parts,
                               std::vector<Contribution> GroupTotals::*list) {
  size_t count = 0;
  for (const GroupTotals& part : parts) count += (part.*list).size();
  std::vector<Contribution> all;
  all.reserve(count);
  for (const GroupTotals& part : parts)
    all.insert(all.end(), (part.*list).begin(), (part.*list).end());
  return all;
}

}  // namespace

GroupTotals::GroupTotals(const Replay& replay) : contexts(replay.sites().contexts().size()) {
  const size_t count = replay.sites().group_count();
  // Large enough that what each piece keeps for every context is little beside its groups.
  const size_t piece = std::max(size_t{1} << 16, 4 * contexts.size());
  std::vector<GroupTotals> parts((count + piece - 1) / piece);
  in_parallel(count, piece, [&](size_t begin, size_t end) {
    parts[begin / piece] = part_of(replay, begin, end);
  });
  for (const GroupTotals& part : parts) {
    for (size_t i = 0; i < contexts.size(); ++i) {
      contexts[i].alloc_bytes += part.contexts[i].alloc_bytes;
      contexts[i].alloc_count += part.contexts[i].alloc_count;
      take_biggest(contexts[i], part.contexts[i].biggest, part.contexts[i].biggest_bytes);
    }
  }
  live = join(parts, &GroupTotals::live);
  temporaries = join(parts, &GroupTotals::temporaries);
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
