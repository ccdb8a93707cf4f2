// What a run's memory would have been with a change. A log is replayed once more. Blocks of the
// driver and of malloc have their changed sizes, which is exact. Arenas whose rules are known and
// repeated the log's addresses (arena_requests.h) go by these rules again. Of other arenas only
// bounds are known.
//
//   arena                        reserved at least        reserved at most
//   no change touches it         as recorded              as recorded
//   its rules repeat the log     least of the forecasts   most of the forecasts
//   else                         what is in use of it     as recorded, if no block grows
#pragma once

#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/summary/what_if.h"

namespace gpupeak::collector {

/// Whether WhatIfSum::curve is wanted, for a page.
enum class WithCurves : uint8_t { kNo, kYes };

/// Throws LogError if the log cannot be read; UsageError for a pattern that no block matches and
/// for a setting of an arena that the log does not have. `options.top`: holders of each sum.
WhatIf what_if(const std::string& path, const Changes& changes, const Options& options,
               const Progress& progress = {}, WithCurves curves = WithCurves::kNo);

/// Changes that would lower the largest peak of a device by a hundredth or more. First come
/// settings of its pools, then each of its largest sites left out, which is what freeing it before
/// the peak would gain; in both, the largest gain first. Each has one sum.
std::vector<WhatIf> what_would_lower(const std::string& path, const Options& options,
                                     const Progress& progress = {},
                                     WithCurves curves = WithCurves::kNo);

/// Fills Summary::lowering: settings that would lower the largest peak of a device. Reads neither
/// symbols nor the heap. Returns whether the log was replayed for it. It is not if no pool has such
/// a setting, if pools had more than 100,000 requests, or if the log cannot tell. Fits as
/// Options::complete.
bool add_lowering(Summary& summary, LogReader& log, const Options& options,
                  const Progress& progress);

/// The same for the first screen, for which nobody waits long: only of a small log that says when
/// memory was used, without pools.
bool add_quick_lowering(Summary& summary, LogReader& log, const Options& options,
                        const Progress& progress);

}  // namespace gpupeak::collector
