// What a summary needs of all groups, found in one pass over them after the replay: for each
// context what is live and what was temporary, and which groups still hold memory. A log may have
// millions of groups, but only thousands of contexts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collector/analyze/arena_peak.h"
#include "collector/replay/replay.h"

namespace gpupeak::collector {

struct GroupTotals {
  explicit GroupTotals(const Replay& replay);

  struct OfContext {
    uint64_t alloc_bytes = 0, alloc_count = 0;
    /// The group that held most at once; of equal ones the first; kNoGroup: all held nothing.
    GroupId biggest = kNoGroup;
    uint64_t biggest_bytes = 0;
  };
  std::vector<OfContext> contexts;  ///< by ContextId
  std::vector<Contribution> live;   ///< by group: those that hold bytes at the end
  /// By group: how many of its blocks were temporary, in `bytes`, too.
  std::vector<Contribution> temporaries;
};

// How far a sum over sampled blocks may be from the truth. Attribution uses it for rows and for
// whole tables.

/// In a Poisson sample by bytes each block stands for as many bytes as the sample's mean, and a
/// little more. So a sum of n blocks is that mean times a number with Poisson's distribution.
class SamplingError {
 public:
  /// Adds `count` blocks of a sample with this mean; mean 0: they are no sample, and add no error.
  void add(uint64_t sample_bytes, uint64_t count);
  void add(const SamplingError& other);

  /// 95 of 100 sums are no further from the truth than this; none: the sum is exact. What a block
  /// adds to the variance is at most the square of the mean, whatever its size: with x = size /
  /// mean it is that square times (x/2 / sinh(x/2))^2. With few blocks the variance itself is
  /// uncertain. So the bound is that of Garwood (1936) for the mean of a Poisson distribution,
  /// within a hundredth: n + 1.96 sqrt(n + 1) + 2, against 3.69 for n = 0 and 18.39 for n = 10.
  std::optional<uint64_t> bytes() const;

 private:
  double variance_ = 0;  ///< count times mean squared
  double mean_ = 0;      ///< the largest
};

}  // namespace gpupeak::collector
