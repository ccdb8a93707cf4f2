// Makes the lines of the first screen in the calling process.
#pragma once

#include <string>

#include "collector/analyze/analyze.h"
#include "collector/rules/rule_book.h"
#include "collector/text/text_format.h"

namespace gpupeak::tools {

/// How the first screen reads a log.
collector::Options screen_options(const collector::Reading& reading);
/// `options`: of screen_options(). Throws LogError.
std::string screen_lines(const std::string& log, const collector::Options& options,
                         const collector::TextStyle& style,
                         const collector::Progress& progress = {});
/// For a helper process: writes the lines to a pipe and ends; with exit code 1 if they cannot be
/// made.
[[noreturn]] void write_screen(int pipe, const std::string& log, const collector::Reading& reading,
                               const collector::TextStyle& style);

}  // namespace gpupeak::tools
