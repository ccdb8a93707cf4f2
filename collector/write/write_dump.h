// A log in readable form, one definition or event a line, in the order in which they are replayed:
// for looking at a log with a surprising report. `gpupeak dump` calls it.
#pragma once

#include <ostream>
#include <string>

#include "collector/log/event_stream.h"

namespace gpupeak::collector {

void write_dump(const LogReader& log, std::ostream& out, const Progress& progress = {});

}  // namespace gpupeak::collector
