// Makes the ProcessRecord of a log.
#pragma once

#include <string>

#include "collector/analyze/analyze.h"
#include "collector/log/progress.h"
#include "collector/merge/process_record.h"
#include "collector/rules/reading.h"

namespace gpupeak::collector {

/// Makes a summary with `options` on the way; `summary` gets it unless it is nullptr. The record
/// has `options.top` sites for each peak. Throws LogError.
ProcessRecord read_process(const std::string& path, const Options& options,
                           const Progress& progress, Summary* summary);
/// The record with as many sites as `merge` compares.
ProcessRecord read_process(const std::string& path, const Reading& reading,
                           const Progress& progress = {});

}  // namespace gpupeak::collector
