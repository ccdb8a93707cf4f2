// What settings of its pools would make of a log's largest peak of a device. collector/fit computes
// it by replay, the report shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/summary/what_if.h"

namespace gpupeak::collector {

struct Lowering {
  /// One setting alone: the peak with it is at least so much, and at most; equal: exact.
  struct Row {
    PoolSetting setting{};
    uint64_t least_bytes = 0;
    std::optional<uint64_t> most_bytes;  ///< none: not known
    int64_t time_ns = 0;                 ///< when; of the larger bound
  };
  std::string scope;  ///< "device:0"; empty: no pool has such a setting
  uint64_t before_bytes = 0;
  uint64_t untried_requests = 0;  ///< the pools' requests, where they are too many to be tried
  std::vector<Row> rows;          ///< that gain a hundredth or more, the most first
};

}  // namespace gpupeak::collector
