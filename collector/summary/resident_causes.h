// What was resident, by cause, as its metrics have it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collector/summary/figures.h"

namespace gpupeak::collector {

struct ResidentCause {
  std::string_view text;  ///< "kept by malloc"
  uint64_t bytes = 0;
};

/// The largest first, without those of nothing; together they are host.resident.total_bytes. Empty:
/// nobody looked, or not all of it can be told apart.
std::vector<ResidentCause> resident_causes(const Metrics& metrics);

}  // namespace gpupeak::collector
