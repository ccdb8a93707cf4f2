// From words to a verb: what people write instead of it is understood, and what cannot be is
// answered with what they most likely meant.
#pragma once

#include <optional>

#include "command_line.h"

namespace gpupeak::tools {

/// Sets line.action. Returns the exit code if there is nothing more to do: help was asked for, or
/// the words make no sense, which has been said.
std::optional<int> parse(CommandLine& line, int argc, char** argv);

}  // namespace gpupeak::tools
