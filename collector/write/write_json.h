// The summary as JSON, schema gpupeak.summary/1. `gpupeak report --json` calls it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// The whole summary.
nlohmann::ordered_json summary_json(const Summary& summary);
void write_json(const Summary& summary, std::ostream& out);

}  // namespace gpupeak::collector
