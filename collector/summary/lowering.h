// What a log's largest peak of a device would be with other settings of its pools. collector/fit
// computes it by replay, the report shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/summary/what_if.h"

namespace gpupeak::collector {

struct Lowering {
  /// One setting alone, and the bounds of the peak with it. Equal bounds: it is exact.
  struct Row {
    PoolSetting setting{};
    uint64_t least_bytes = 0;
    std::optional<uint64_t> most_bytes;  ///< none: not known
    int64_t time_ns = 0;                 ///< when the larger bound is reached
    std::string about;                   ///< the rows of the two blocks of kOneForTwo; else empty
  };
  std::string scope;  ///< "device:0"; empty: no pool has such a setting
  uint64_t before_bytes = 0;
  /// Requests to the pools, if they are too many to be tried; else 0.
  uint64_t untried_requests = 0;
  std::vector<Row> rows;  ///< settings that save a hundredth or more, the largest saving first
};

}  // namespace gpupeak::collector
