// A Summary as bytes, for files that the very same build of the command reads again.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

std::string pack_summary(const Summary& summary);
/// nullopt if the bytes are not one whole summary.
std::optional<Summary> unpack_summary(std::string_view bytes);

}  // namespace gpupeak::collector
