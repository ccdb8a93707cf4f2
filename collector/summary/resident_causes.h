// Resident memory by cause, from its metrics.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collector/summary/figures.h"
#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

struct ResidentCause {
  std::string_view text;  ///< "kept by malloc"
  uint64_t bytes = 0;
};

/// Largest first, without causes of 0 bytes; they add up to host.resident.total_bytes. Empty:
/// nobody looked, or not all of it has a cause that is told apart.
std::vector<ResidentCause> resident_causes(const Metrics& metrics);

/// How much of a row of a peak was resident at most: less than it has where it is of anonymous
/// mappings, and all of these together had less resident.
uint64_t resident_at_most(const Holder& holder, const Metrics& metrics);
/// "  (≤ 100 MiB resident)": at most so much of the row; empty: all of it may have been.
std::string resident_mark(const Holder& holder, const Metrics& metrics, const TextStyle& style);
/// The rows of a peak, by what of them was resident at most: a reservation that nobody touched
/// comes behind what was used.
std::vector<const Holder*> rows_by_resident(const Peak& peak, const Metrics& metrics);

/// Whether the largest RSS was clearly more than what was resident at the last look.
bool is_seen_late(uint64_t looked_at_bytes, uint64_t rss_bytes);

}  // namespace gpupeak::collector
