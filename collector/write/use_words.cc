// The words for when a block was used.
#include <fmt/format.h>

#include <algorithm>

#include "collector/write/writers.h"

namespace gpupeak::collector {

const UseName& use_name(UseAtPeak use) {
  return *std::ranges::find_if(kUses, [&](const UseName& of) { return of.use == use; });
}

std::string when_used(UseAtPeak use, int64_t shortest_ns, int64_t longest_ns) {
  constexpr std::string_view kHowLong = "{}";
  std::string text(use_name(use).when);
  const size_t at = text.find(kHowLong);
  if (at == std::string::npos) return text;
  const std::string shortest = duration(shortest_ns), longest = duration(longest_ns);
  return text.replace(at, kHowLong.size(),
                      shortest == longest ? shortest : shortest + " to " + longest);
}

std::vector<std::string> use_notes(const LastUses& uses) {
  std::vector<std::string> notes{
      "A use is an address of the block in the arguments of a launch, a copy or a fill, when that "
      "was given to the device. What a kernel reads from memory, such as lists of pointers, is not "
      "seen."};
  if (!uses.end) {
    notes.emplace_back(
        "The process did not come to its end: of what was live then no use is known.");
    return notes;
  }
  if (uses.end->unread > 0)
    notes.push_back(
        fmt::format("The parameters of {} launches could not be read: \"not seen\" may be wrong.",
                    grouped(uses.end->unread)));
  if (uses.end->left_out > 0)
    notes.push_back(fmt::format("{} blocks were not followed.", grouped(uses.end->left_out)));
  return notes;
}

bool may_be_moved(UseAtPeak use) {
  return use != UseAtPeak::kInUse && use != UseAtPeak::kNotKnown;
}

}  // namespace gpupeak::collector
