// What a buffer is for, in a line: "copied in · read by stencil_1d · copied out". The first screen
// and the report show it.
#pragma once

#include <cstddef>
#include <string>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

inline constexpr size_t kFewKernels = 3;  ///< as many as a screen shows

/// Names at most `kernels` of its kernels, those with most launches.
std::string role_text(const Holder& row, size_t kernels, const TextStyle& style);

/// The same to stand behind a title, in at most half of `width` columns; empty: it is not known.
std::string role_mark(const Holder& row, size_t width, const TextStyle& style);

/// What must be said once where rows show roles: empty, or why a buffer that was never seen used
/// may be in use nevertheless.
std::string role_note(const Peak& peak, size_t rows);

}  // namespace gpupeak::collector
