// How far a sum over sampled blocks may be off. Used by attribution for rows and for whole tables.
#pragma once

#include <cstdint>
#include <optional>

namespace gpupeak::collector {

/// Blocks of a Poisson sample by bytes each stand for as many bytes as the sample's mean, and a
/// little more: so a sum of n of them is that mean times a number with Poisson's distribution.
class SamplingError {
 public:
  /// `count` blocks more of a sample with that mean; 0: none, since they are no sample.
  void add(uint64_t sample_bytes, uint64_t count);
  void add(const SamplingError& other);

  /// 95 of 100 sums are no further from the truth than this; none: it is exact. What a block adds to
  /// the variance is at most the square of the mean, whatever its size: with x = size / mean it is
  /// that times (x/2 / sinh(x/2))^2. Of few blocks the variance is itself uncertain, so that the
  /// bound is that of Garwood (1936) for the mean of a Poisson distribution, within a hundredth:
  /// n + 1.96 sqrt(n + 1) + 2 for the 3.69 of n = 0 and the 18.39 of n = 10.
  std::optional<uint64_t> bytes() const;

 private:
  double variance_ = 0;  ///< count times mean squared
  double mean_ = 0;      ///< the largest
};

}  // namespace gpupeak::collector
