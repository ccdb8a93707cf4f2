// One log to its ProcessRecord.
#pragma once

#include <string>

#include "collector/log/progress.h"
#include "collector/merge/process_record.h"
#include "collector/rules/reading.h"

namespace gpupeak::collector {

/// Throws LogError.
ProcessRecord read_process(const std::string& path, const Reading& reading,
                           const Progress& progress = {});

}  // namespace gpupeak::collector
