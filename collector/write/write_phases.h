// The phases of a run as one wide table, host and device side by side.
#pragma once

#include <ostream>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

void write_phases(const Summary& summary, std::ostream& out, const TextStyle& style);
/// The summary's phases, schema gpupeak.phases/1.
void write_phases_json(const Summary& summary, std::ostream& out);
/// Alike instances are one row; bytes and nanoseconds, empty if not measured.
void write_phases_csv(const Summary& summary, std::ostream& out);

}  // namespace gpupeak::collector
