// How titles of sites ("A ← B ← C") are made to fit. The text writers share it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// Between a frame and its caller.
inline constexpr std::string_view kArrow = " ← ";

/// At most `width` columns. Frame number `telling` is the one in which the row differs from others:
/// it stays longest, and its line stays in any case. Frames go that are neither the first, nor the
/// last, nor this one, then the middles of the longest names, then the last frame, then the first.
std::string fit_title(std::string_view title, size_t width, size_t telling = 0);
/// fit_title(), unless style.whole_lines.
std::string cut_title(std::string_view title, size_t width, const TextStyle& style,
                      size_t telling = 0);

/// The outer frames that all of several titles end in, less what a title would lose all by; as text
/// ("C ← D"), to be said once. Empty: there are none.
std::string shared_outer_frames(const std::vector<std::string>& titles);
/// The title without them.
std::string without_outer_frames(std::string_view title, std::string_view shared);

}  // namespace gpupeak::collector
