// Instants as they are written: the times that reports print can be pasted where an instant is
// asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpupeak::collector {

/// "+9.81 s", "+1.25s", "+40ms", "+17.5 us", "+9810000000ns": nanoseconds, rounded; "-1s" is
/// negative. Beyond what fits it is the largest that does. nullopt: no such text.
std::optional<int64_t> parse_instant(std::string_view text);

}  // namespace gpupeak::collector
