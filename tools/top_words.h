// Words and figures that the list and the page of `top` share.
#pragma once

#include <optional>
#include <string>

#include "collector/text/text_format.h"
#include "top_program.h"

namespace gpupeak::tools {

/// "1.5 days", "12 min", "140 ms".
std::string span_text(double seconds);
std::string rate_text(const std::optional<double>& per_second);
/// Bytes a second, with their sign.
std::string growth_text(const std::optional<double>& growth, const collector::TextStyle& style);
std::string state_text(const TopProgram& program);
/// The fastest growth, and the soonest time at which a card is full, of all devices of the program.
std::optional<double> growth_of(const TopProgram& program);
std::optional<double> full_of(const TopProgram& program);
/// Whether the text contains the other, in upper or lower case.
bool contains(const std::string& text, const std::string& part);

}  // namespace gpupeak::tools
