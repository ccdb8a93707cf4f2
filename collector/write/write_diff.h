// Two runs compared, for people and as JSON (docs/diff.md). `gpupeak diff` calls it.
#pragma once

#include <ostream>

#include "collector/summary/diff.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// `top`: rows of each table; a last row has the sum of the others.
void write_diff(const Summary& a, const Summary& b, size_t top, std::ostream& out,
                const TextStyle& style = {});
void write_diff_json(const Summary& a, const Summary& b, std::ostream& out);

}  // namespace gpupeak::collector
