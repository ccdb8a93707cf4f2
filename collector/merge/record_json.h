// Writes a ProcessRecord as one line of JSON, and reads it, for partial results. docs/merge.md
// describes the fields.
#pragma once

#include <string>
#include <string_view>

#include "collector/merge/process_record.h"

namespace gpupeak::collector {

std::string record_text(const ProcessRecord& record);

/// Reads a record. Throws std::runtime_error that says what is wrong with it.
ProcessRecord record_of(std::string_view text);

}  // namespace gpupeak::collector
