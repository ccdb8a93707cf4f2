// One log to its ProcessRecord.
#pragma once

#include <string>

#include "collector/analyze/analyze.h"
#include "collector/log/progress.h"
#include "collector/merge/process_record.h"
#include "collector/rules/reading.h"

namespace gpupeak::collector {

/// Throws LogError. A summary is made on the way, with `options`; `summary` gets it unless it is
/// nullptr. The record has `options.top` sites of each peak.
ProcessRecord read_process(const std::string& path, const Options& options,
                           const Progress& progress, Summary* summary);
/// With the sites that `merge` compares.
ProcessRecord read_process(const std::string& path, const Reading& reading,
                           const Progress& progress = {});

}  // namespace gpupeak::collector
