// The holders of every peak as CSV (RFC 4180), one row each. `gpupeak report --csv` calls it.
#pragma once

#include <ostream>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

void write_csv(const Summary& summary, std::ostream& out);

}  // namespace gpupeak::collector
