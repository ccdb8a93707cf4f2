// One log to its ProcessRecord.
#pragma once

#include <string>

#include "collector/analyze/analyze.h"
#include "collector/log/progress.h"
#include "collector/merge/process_record.h"
#include "collector/rules/reading.h"

namespace gpupeak::collector {

/// Throws LogError. `options`: of the summary that is made on the way, which `summary` then has, if
/// it is not null; of each peak the record has `options.top` sites.
ProcessRecord read_process(const std::string& path, const Options& options,
                           const Progress& progress, Summary* summary);
/// With the sites that `merge` compares.
ProcessRecord read_process(const std::string& path, const Reading& reading,
                           const Progress& progress = {});

}  // namespace gpupeak::collector
