// Resident memory by cause, from its metrics.
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

/// Largest first, without causes of 0 bytes; they add up to host.resident.total_bytes. Empty:
/// nobody looked, or not all of it has a cause that is told apart.
std::vector<ResidentCause> resident_causes(const Metrics& metrics);

/// Whether the largest RSS was clearly more than what was resident at the last look.
bool is_seen_late(uint64_t looked_at_bytes, uint64_t rss_bytes);

}  // namespace gpupeak::collector
