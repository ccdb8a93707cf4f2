// Finds the verb that a command line asks for. Common other spellings are understood, such as
// `gpupeak LOG` and `gpupeak help VERB`. Errors are answered with what was most likely meant.
#pragma once

#include <optional>

#include "tools/shared/command_line.h"

namespace gpupeak::tools {

/// Sets line.action. Returns the exit code if there is nothing more to do: help was printed, or the
/// words make no sense, and the message about it was printed.
std::optional<int> parse(CommandLine& line, int argc, char** argv);

}  // namespace gpupeak::tools
