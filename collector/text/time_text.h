// Reads instants as they are written, so that times from reports can be pasted where an instant is
// asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpupeak::collector {

/// The nanoseconds of "+9.81 s", "+1.25s", "+40ms", "+17.5 us", "+9810000000ns", rounded; "-1s" is
/// negative. What is too large becomes the largest value. nullopt: it is no such text.
std::optional<int64_t> parse_instant(std::string_view text);

}  // namespace gpupeak::collector
