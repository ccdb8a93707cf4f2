#include "collector/fit/what_if.h"

#include <fmt/format.h>

#include "collector/fit/changed_log.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {

WhatIf what_if(const std::string& path, const Changes& changes, const Options& options,
               const Progress& progress, WithCurves curves) {
  Options reading = options;
  if (changes.scales.empty()) reading.reading.heap = HeapReading::kNone;
  ChangedLog before(path, reading, progress);
  WhatIf result = before.with(changes, curves);
  for (size_t i = 0; i < result.matched.size(); ++i) {
    if (result.matched[i] > 0) continue;
    throw UsageError(fmt::format("'{}' matches no block's function, site, tag or phase",
                                 escape(changes.scales[i].pattern)));
  }
  return result;
}

}  // namespace gpupeak::collector
