// Words and figures that the list and the page of `top` share.
#pragma once

#include <optional>
#include <string>

#include "collector/text/text_format.h"
#include "tools/top/program.h"

namespace gpupeak::tools {

/// "1.5 days", "12 min", "140 ms".
std::string span_text(double seconds);
std::string rate_text(const std::optional<double>& per_second);
/// Bytes a second, with their sign.
std::string growth_text(const std::optional<double>& growth, const collector::TextStyle& style);
std::string state_text(const TopProgram& program);
/// The fastest growth of the program's devices, or of its heap if it has none, in bytes a second,
/// and the seconds until the first of their cards is full.
std::optional<double> growth_of(const TopProgram& program);
std::optional<double> full_of(const TopProgram& program);
/// Whether `text` contains `part`; upper and lower case are the same.
bool contains(const std::string& text, const std::string& part);

}  // namespace gpupeak::tools
