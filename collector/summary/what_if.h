// What a run's memory would have been with a change: a sum for each device, and the host's. what_if
// of collector/fit computes it, `gpupeak whatif` shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpupeak::collector {

/// What a log can be replayed with: a setting of a pool, or when blocks go.
enum class PoolSetting : uint8_t {
  kExpandableSegments,  ///< PyTorch's expandable_segments:True
  kSameAsRequested,     ///< ONNX Runtime's kSameAsRequested
  kNoPreallocation,     ///< of what an arena took in advance
  kFreeAtLastUse,       ///< blocks of devices go when they were last seen used
};

/// What is changed.
struct Changes {
  /// Blocks whose function, site, tag or phase a pattern describes (* and ? stand for any text and
  /// for one character) are so many times as large; 0: they are left out. Several that match one
  /// block multiply.
  struct Scale {
    std::string pattern;
    double factor = 1;
  };
  std::vector<Scale> scales;
  bool expandable_segments = false;  ///< PyTorch's expandable_segments:True
  bool same_as_requested = false;    ///< ONNX Runtime's kSameAsRequested
  bool no_preallocation = false;     ///< of what an arena took in advance
  bool free_at_last_use = false;     ///< as the log has it; what was not seen used stays

  bool changes_arenas() const {
    return expandable_segments || same_as_requested || no_preallocation || free_at_last_use;
  }
  std::vector<PoolSetting> settings() const {
    std::vector<PoolSetting> all;
    if (expandable_segments) all.push_back(PoolSetting::kExpandableSegments);
    if (same_as_requested) all.push_back(PoolSetting::kSameAsRequested);
    if (no_preallocation) all.push_back(PoolSetting::kNoPreallocation);
    if (free_at_last_use) all.push_back(PoolSetting::kFreeAtLastUse);
    return all;
  }
};

/// A sum at one instant: as recorded, and with the change at least and at most.
struct WhatIfPoint {
  int64_t time = 0;  ///< ns
  uint64_t before = 0, least = 0, most = 0;
};

/// Both peaks are of what the log has: only like is compared with like.
struct WhatIfSum {
  struct Holder {
    std::string title;
    uint64_t bytes = 0, count = 0;
  };
  int32_t device = -1;        ///< -1: the host
  std::string name;           ///< of the device
  uint64_t before_bytes = 0;  ///< the peak of what was recorded
  int64_t before_time_ns = 0;
  uint64_t least_bytes = 0;            ///< the peak with the change is at least that
  std::optional<uint64_t> most_bytes;  ///< and at most; equal: exact. None: not known
  int64_t time_ns = 0;                 ///< when; of the larger bound
  std::vector<Holder> holders;  ///< then, largest first; with other_bytes they add up to that bound
  uint64_t other_bytes = 0;
  /// What nvidia-smi showed at the peak, and would: the driver's own taken as it was. None: it was
  /// not read at the peak.
  std::optional<uint64_t> used_before_bytes, used_bytes;
  std::vector<std::string> notes;  ///< why a bound is none, or not narrow
  /// False: events were lost. All figures are of what the log has then, and bound nothing beyond.
  bool is_whole = true;
  /// The peak that the library counted, where the log comes to another one.
  std::optional<uint64_t> counted_bytes;
  /// Over time; empty unless asked for. Where most_bytes is none, `most` says nothing.
  std::vector<WhatIfPoint> curve;

  bool is_exact() const { return is_whole && most_bytes == least_bytes; }
};

struct WhatIf {
  Changes changes;
  std::vector<WhatIfSum> sums;  ///< devices by ordinal, then the host if it was measured whole
  /// Of Changes::scales: blocks that each matched.
  std::vector<uint64_t> matched;
  std::string log;          ///< its path
  int64_t duration_ns = 0;  ///< of the run
};

}  // namespace gpupeak::collector
