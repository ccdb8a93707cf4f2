// Two runs compared in a few lines of Markdown, for a comment on a change. `gpupeak diff
// --markdown` calls it.
#pragma once

#include <ostream>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// The peaks of both runs; under each peak that changed, the `top` sites that changed most.
void write_diff_markdown(const Summary& a, const Summary& b, size_t top, std::ostream& out);

}  // namespace gpupeak::collector
