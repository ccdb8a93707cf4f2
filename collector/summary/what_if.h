// What a run's memory would have been with a change: a sum for each device, and the host's.
// what_if() of collector/fit computes it, `gpupeak whatif` shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// A change with which a log can be replayed: a setting of a pool, or when blocks are there.
enum class PoolSetting : uint8_t {
  kExpandableSegments,  ///< PyTorch's expandable_segments:True
  kSameAsRequested,     ///< ONNX Runtime's kSameAsRequested
  kNoPreallocation,     ///< arenas take nothing in advance
  kFreeAtLastUse,       ///< device blocks are freed when they were last seen used
  // Of blocks that the program takes from the driver itself:
  kWithoutUnused,   ///< those that were never seen used are not taken
  kTakeAtFirstUse,  ///< each is taken when it was first seen used
  kOneForTwo,       ///< one takes the memory of another, whose last use was before its first
};

/// What is changed.
struct Changes {
  /// Blocks whose function, site, tag or phase matches the pattern (* and ? stand for any text and
  /// for one character) are `factor` times as large; 0: they are left out. If several match one
  /// block, their factors multiply.
  struct Scale {
    std::string pattern;
    double factor = 1;
  };
  std::vector<Scale> scales;
  bool expandable_segments = false;  ///< PyTorch's expandable_segments:True
  bool same_as_requested = false;    ///< ONNX Runtime's kSameAsRequested
  bool no_preallocation = false;     ///< arenas take nothing in advance
  bool free_at_last_use = false;  ///< by the uses in the log; a block that was not seen used stays

  bool without_unused = false;  ///< a block that was never seen used is not taken
  bool take_at_first_use = false;
  /// Two blocks of the driver as one, by their numbers in the order of the log.
  struct Two {
    size_t first = 0, second = 0;
    std::string titles;
  };
  std::optional<Two> one_for_two;

  bool changes_arenas() const { return !settings().empty(); }
  /// Whether the log has to say when blocks were used.
  bool needs_uses() const {
    return free_at_last_use || without_unused || take_at_first_use || one_for_two;
  }
  std::vector<PoolSetting> settings() const {
    std::vector<PoolSetting> all;
    if (expandable_segments) all.push_back(PoolSetting::kExpandableSegments);
    if (same_as_requested) all.push_back(PoolSetting::kSameAsRequested);
    if (no_preallocation) all.push_back(PoolSetting::kNoPreallocation);
    if (free_at_last_use) all.push_back(PoolSetting::kFreeAtLastUse);
    if (without_unused) all.push_back(PoolSetting::kWithoutUnused);
    if (take_at_first_use) all.push_back(PoolSetting::kTakeAtFirstUse);
    if (one_for_two) all.push_back(PoolSetting::kOneForTwo);
    return all;
  }
};

/// A sum at one instant: as recorded, and its bounds with the change.
struct WhatIfPoint {
  int64_t time = 0;  ///< ns
  uint64_t before = 0, least = 0, most = 0;
};

/// Both peaks come from the log's events, so that like is compared with like.
struct WhatIfSum {
  struct Holder {
    std::string title;
    uint64_t bytes = 0, count = 0;
  };
  int32_t device = -1;        ///< -1: the host
  std::string name;           ///< the device's
  uint64_t before_bytes = 0;  ///< the peak of what was recorded
  int64_t before_time_ns = 0;
  uint64_t least_bytes = 0;            ///< the lower bound of the peak with the change
  std::optional<uint64_t> most_bytes;  ///< the upper bound; equal: exact. None: not known
  int64_t time_ns = 0;                 ///< when the larger bound is reached
  /// At that instant, largest first; with other_bytes they add up to that bound.
  std::vector<Holder> holders;
  uint64_t other_bytes = 0;
  /// What nvidia-smi showed at the peak, and what it would show if the driver's own stayed as it
  /// was. None: it was not read at the peak.
  std::optional<uint64_t> used_before_bytes, used_bytes;
  std::vector<std::string> notes;  ///< why a bound is none, or not narrow
  /// False: events were lost. The figures are then of what the log has, and are no bounds.
  bool is_whole = true;
  /// The peak that the library counted, if the log comes to another one.
  std::optional<uint64_t> counted_bytes;
  /// The sum over time; empty unless asked for. If most_bytes is none, `most` means nothing.
  std::vector<WhatIfPoint> curve;

  bool is_exact() const { return is_whole && most_bytes == least_bytes; }
};

struct WhatIf {
  Changes changes;
  std::vector<WhatIfSum> sums;  ///< devices by ordinal, then the host if it was measured whole
  /// How many blocks each of Changes::scales matched.
  std::vector<uint64_t> matched;
  std::string log;          ///< its path
  int64_t duration_ns = 0;  ///< of the run
};

// What a change is called, and what a peak would be with the change, for people and for JSON.

/// As JSON has it: "expandable_segments".
std::string_view setting_name(PoolSetting setting);
/// "PyTorch with expandable segments".
std::string_view setting_text(PoolSetting setting);
/// With what Lowering::Row::about adds.
std::string setting_text(PoolSetting setting, const std::string& about);

/// "without 'Conv*', PyTorch with expandable segments".
std::string changes_text(const Changes& changes);

/// "1.12 GiB to 1.14 GiB"; one figure if it is exact; "about" and one figure if both read alike.
/// `most`: none: not known.
std::string bounds_text(uint64_t least, const std::optional<uint64_t>& most,
                        const TextStyle& style);
/// The change of the peak: "−11.2 %", by the larger bound.
std::string gain_text(uint64_t before, uint64_t least, const std::optional<uint64_t>& most);
/// "  14.0 GiB                 −12.5 %  PyTorch with expandable segments": a row of such changes.
std::string lowering_row(uint64_t before, uint64_t least, const std::optional<uint64_t>& most,
                         const std::string& change, const TextStyle& style);

}  // namespace gpupeak::collector
