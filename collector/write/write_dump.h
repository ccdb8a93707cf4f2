// A log in readable form, one definition or event a line, in the order in which they are replayed.
// For looking at a log when its report surprises. `gpupeak dump` calls it.
#pragma once

#include <ostream>
#include <string>

#include "collector/log/event_stream.h"

namespace gpupeak::collector {

/// Throws LogError as analyze() does.
void write_dump(const std::string& path, std::ostream& out, const Progress& progress = {});

}  // namespace gpupeak::collector
