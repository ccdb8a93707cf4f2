// The full report as text. `gpupeak report` calls it.
#pragma once

#include <ostream>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

void write_text(const Summary& summary, std::ostream& out, const TextStyle& style = {});

}  // namespace gpupeak::collector
