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

/// Whether the largest RSS was clearly more than what there was at the last look.
bool is_seen_late(uint64_t looked_at_bytes, uint64_t rss_bytes);

}  // namespace gpupeak::collector
