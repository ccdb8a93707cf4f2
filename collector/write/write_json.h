// The summary as JSON, schema gpupeak.summary/1. `gpupeak report --json` calls it.
#pragma once

#include <ostream>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

void write_json(const Summary& summary, std::ostream& out);

}  // namespace gpupeak::collector
