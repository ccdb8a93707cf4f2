#include "collector/views/use_words.h"

#include <algorithm>

#include "collector/text/text_format.h"

namespace gpupeak::collector {

std::string_view name_of(UseAtPeak use) {
  return std::find_if(kUses.begin(), kUses.end(), [&](const UseName& of) { return of.use == use; })
      ->name;
}

std::string when_used(UseAtPeak use, int64_t shortest_ns, int64_t longest_ns) {
  const std::string shortest = duration(shortest_ns), longest = duration(longest_ns);
  const std::string range = shortest == longest ? shortest : shortest + " to " + longest;
  switch (use) {
    case UseAtPeak::kOver:
      return "last " + range + " before";
    case UseAtPeak::kEarly:
      return "first " + range + " after";
    case UseAtPeak::kIdle:
      return "none for " + range;
    case UseAtPeak::kNever:
      return "not seen";
    case UseAtPeak::kInUse:
    case UseAtPeak::kNotKnown:
      break;
  }
  return "";
}

bool may_be_moved(UseAtPeak use) {
  return use != UseAtPeak::kInUse && use != UseAtPeak::kNotKnown;
}

}  // namespace gpupeak::collector
