// Makes titles of sites ("A ← B ← C") fit into a column. The text writers share it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// Stands between a frame and its caller.
inline constexpr std::string_view kArrow = " ← ";

/// The title in at most `width` columns. Frame number `telling` is the one in which the row differs
/// from others: it is cut last, and its line stays in any case. First the frames go that are
/// neither the first, nor the last, nor this one; then the middles of the longest names; then the
/// last frame; then the first.
std::string fit_title(std::string_view title, size_t width, size_t telling = 0);
/// fit_title(), unless style.whole_lines.
std::string cut_title(std::string_view title, size_t width, const TextStyle& style,
                      size_t telling = 0);

}  // namespace gpupeak::collector
