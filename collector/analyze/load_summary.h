// Makes a Summary from a log, or from the JSON that `gpupeak report --json` wrote of one. diff and
// check take either, so that a baseline need not keep the log.
#pragma once

#include <string>
#include <string_view>

#include "collector/analyze/analyze.h"

namespace gpupeak::collector {

/// Whether a file begins like JSON. No log does.
bool begins_like_json(const std::string& path);

/// Decides by the file's content. `options` are for logs: what a JSON lists was decided when it was
/// written. Throws LogError for a file that is neither, UsageError if rows are needed and the
/// JSON's are not those of `options.by`.
Summary load_summary(const std::string& path, const Options& options = {},
                     const Progress& progress = {});

/// Reads the JSON. `name` is for messages. Fields that are missing are not measured, or empty.
/// Throws LogError.
Summary summary_from_json(std::string_view text, const std::string& name,
                          const Sanitizer& sanitizer = {});

}  // namespace gpupeak::collector
