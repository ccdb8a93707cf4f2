// What is said of when a block was used, at an instant: one source of words for all views.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "collector/timeline/block_uses.h"

namespace gpupeak::collector {

struct UseName {
  UseAtPeak use;
  std::string_view name;  ///< in JSON
  std::string_view text;  ///< of the peak
};
/// In the order in which they are shown.
constexpr std::array<UseName, 6> kUses{{
    {UseAtPeak::kOver, "over", "not seen used after the peak"},
    {UseAtPeak::kEarly, "early", "not seen used before it"},
    {UseAtPeak::kNever, "never", "not seen used at all"},
    {UseAtPeak::kIdle, "idle", "longest without use around it"},
    {UseAtPeak::kInUse, "in_use", "used before and after"},
    {UseAtPeak::kNotKnown, "not_known", "not known"},
}};
std::string_view name_of(UseAtPeak use);

/// "last 1.2 s to 3.4 s before". Empty for what was in use, or is not known.
std::string when_used(UseAtPeak use, int64_t shortest_ns, int64_t longest_ns);
/// Whether it could have been elsewhere then.
bool may_be_moved(UseAtPeak use);
/// Whether the words are of a time.
inline bool has_time(UseAtPeak use) {
  return may_be_moved(use) && use != UseAtPeak::kNever;
}

}  // namespace gpupeak::collector
