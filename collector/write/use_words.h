// What is said of when a block was used, at an instant: one source of words for all views, and for
// the page.
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
  std::string_view text;  ///< of the peak
  std::string_view when;  ///< of some blocks at an instant; {}: how long
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
/// Below a table with a column of uses.
inline constexpr std::string_view kUsedNote =
    "used: of most of a site's bytes, when they were last seen used before then, or first after it";

const UseName& use_name(UseAtPeak use);
/// "last 1.2 s to 3.4 s before".
std::string when_used(UseAtPeak use, int64_t shortest_ns, int64_t longest_ns);
/// What uses are, and what of them the log does not have.
std::vector<std::string> use_notes(const LastUses& uses);
/// Whether it could have been elsewhere then.
bool may_be_moved(UseAtPeak use);
/// Whether the words are of a time.
inline bool has_time(UseAtPeak use) {
  return may_be_moved(use) && use != UseAtPeak::kNever;
}

}  // namespace gpupeak::collector
