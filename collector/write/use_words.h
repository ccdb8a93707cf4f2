// The words for when a block was used, at an instant: one source for all views and the page.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collector/timeline/last_use.h"

namespace gpupeak::collector {

struct UseName {
  UseAtPeak use;
  std::string_view name;  ///< in JSON
  std::string_view text;  ///< for the peak
  std::string_view when;  ///< for blocks at an instant; {}: how long
};
/// In the order in which they are shown.
inline constexpr std::array<UseName, 6> kUses{{
    {UseAtPeak::kOver, "over", "not seen used after the peak", "last {} before"},
    {UseAtPeak::kEarly, "early", "not seen used before it", "first {} after"},
    {UseAtPeak::kNever, "never", "not seen used at all", "not seen"},
    {UseAtPeak::kIdle, "idle", "longest without use around it", "none for {}"},
    {UseAtPeak::kInUse, "in_use", "used before and after", "in use"},
    {UseAtPeak::kNotKnown, "not_known", "not known", "not known"},
}};
/// Stands below a table with a column of uses.
inline constexpr std::string_view kUsedNote =
    "used: of most of a site's bytes, when they were last seen used before then, or first after it";

const UseName& use_name(UseAtPeak use);
/// For some blocks at an instant: "last 1.2 s to 3.4 s before".
std::string when_used(UseAtPeak use, int64_t shortest_ns, int64_t longest_ns);
/// What a use is, and what the log does not have of them.
std::vector<std::string> use_notes(const LastUses& uses);
/// Whether the block could have been elsewhere at that instant.
bool may_be_moved(UseAtPeak use);
/// Whether UseName::when has a time in it.
inline bool has_time(UseAtPeak use) {
  return may_be_moved(use) && use != UseAtPeak::kNever;
}

}  // namespace gpupeak::collector
