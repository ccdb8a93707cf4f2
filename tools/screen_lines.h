// The lines of the first screen, made by this very process.
#pragma once

#include <string>

#include "collector/analyze/analyze.h"
#include "collector/rules/reading.h"
#include "collector/text/text_format.h"

namespace gpupeak::tools {

/// How the first screen reads a log.
collector::Options screen_options(const collector::Reading& reading);
/// Throws LogError.
std::string screen_lines(const std::string& log, const collector::Reading& reading,
                         const collector::TextStyle& style,
                         const collector::Progress& progress = {});
/// For a process of its own: writes them to a pipe and ends, with 1 where they cannot be made.
[[noreturn]] void write_screen(int pipe, const std::string& log, const collector::Reading& reading,
                               const collector::TextStyle& style);

}  // namespace gpupeak::tools
