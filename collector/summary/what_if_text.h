// What a change is called, and what a peak would be with the change, for people and for JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collector/summary/what_if.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

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

}  // namespace gpupeak::collector
