// `gpupeak fit`: what a run needs of each GPU, whether a card has that, and what would make it
// less.
#pragma once

#include <ostream>

#include "collector/fit/need.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

void write_fit(const FitReport& report, size_t top, std::ostream& out, const TextStyle& style);
void write_fit_json(const FitReport& report, std::ostream& out);

}  // namespace gpupeak::collector
