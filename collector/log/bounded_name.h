// Bounds the length of a name that a log has. Definitions and NameTable use it.
#pragma once

#include <string_view>

namespace gpupeak::collector {

/// `name`, cut at a whole character where it is longer than any path. A damaged log could else make
/// us repeat one huge name very often.
std::string_view bounded_name(std::string_view name);

}  // namespace gpupeak::collector
