// `gpupeak report --byte-seconds`: what each site held, multiplied by how long.
#pragma once

#include <vector>

#include "collector/timeline/byte_time.h"
#include "collector/views/heading.h"

namespace gpupeak::collector {

/// A table for each sum. Its rows add up to the sum; the last one is for all others. In tables by
/// site the blocks of pools are rows of their own.
void write_byte_seconds(Profile& profile, const std::vector<HeldTime>& held, GroupBy by, size_t top,
                        std::ostream& out, const TextStyle& style);
void write_byte_seconds_json(Profile& profile, const std::vector<HeldTime>& held, GroupBy by,
                             size_t top, std::ostream& out);
void write_byte_seconds_csv(Profile& profile, const std::vector<HeldTime>& held, GroupBy by,
                            size_t top, std::ostream& out);

}  // namespace gpupeak::collector
