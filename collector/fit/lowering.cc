// Finds what would lower a log's largest peak, each change alone.
#include <algorithm>
#include <utility>

#include "collector/fit/changed_log.h"
#include "collector/fit/what_if.h"
#include "collector/fit/what_if_settings.h"
#include "collector/summary/run_text.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

uint64_t gain(const WhatIf& what_if) {
  const WhatIfSum& sum = what_if.sums.front();
  const uint64_t after = sum.most_bytes.value_or(sum.least_bytes);
  return sum.before_bytes - std::min(sum.before_bytes, after);
}

/// A change after which nothing is left is no advice.
bool leaves_something(const WhatIfSum& sum) {
  return sum.most_bytes.value_or(sum.least_bytes) > 0;
}

/// settings_of(), and two blocks as one.
std::vector<Changes> all_settings(const Summary& summary, const Peak& peak, ChangedLog& log) {
  std::vector<Changes> all = settings_of(summary);
  if (!summary.has_uses) return all;
  if (auto two = log.two_as_one(peak)) all.emplace_back().one_for_two = std::move(two);
  return all;
}

/// The changes that lower the peak's device by a hundredth or more, each alone, the most first.
std::vector<WhatIf> that_lower(const Peak& peak, const std::vector<Changes>& all,
                               ChangedLog& before, WithCurves curves = WithCurves::kNo) {
  constexpr uint64_t kWorthALine = 100;  // a hundredth of the peak
  std::vector<WhatIf> results;
  for (const Changes& changes : all) {
    WhatIf result = before.with(changes, curves);
    std::erase_if(result.sums, [&](const WhatIfSum& sum) {
      return ScopeKey::device(sum.device).text() != peak.scope;
    });
    if (result.sums.empty()) continue;
    const uint64_t worth = (result.sums.front().before_bytes + kWorthALine - 1) / kWorthALine;
    if (gain(result) >= worth && leaves_something(result.sums.front()))
      results.push_back(std::move(result));
  }
  std::stable_sort(results.begin(), results.end(),
                   [](const WhatIf& a, const WhatIf& b) { return gain(a) > gain(b); });
  return results;
}

uint64_t requests_of_pools(const Summary& summary) {
  uint64_t requests = 0;
  for (const ArenaSummary& arena : summary.arenas) {
    if (arena.device) requests += arena.alloc_count;
  }
  return requests;
}

}  // namespace

std::vector<WhatIf> what_would_lower(const std::string& path, const Options& options,
                                     const Progress& progress, WithCurves curves) {
  constexpr size_t kMostSites = 4;
  Options reading = options;
  reading.reading.heap = HeapReading::kNone;
  ChangedLog before(path, reading, progress);
  const Peak* const peak = largest_device_peak(before.summary());
  if (peak == nullptr) return {};
  std::vector<Changes> sites;
  for (const Holder& holder : peak->holders) {
    if (holder.kind == "device.idle" || holder.kind == "device.not_recorded" ||
        sites.size() == kMostSites)
      continue;
    // A site with several kinds of memory has a row for each.
    const bool is_known = std::any_of(sites.begin(), sites.end(), [&](const Changes& site) {
      return site.scales.front().pattern == holder.title;
    });
    if (!is_known && holder.title.find_first_of("*?") == std::string::npos)
      sites.emplace_back().scales.push_back({holder.title, 0});
  }
  // Settings come before what would have to be programmed.
  std::vector<WhatIf> results =
      that_lower(*peak, all_settings(before.summary(), *peak, before), before, curves);
  for (WhatIf& site : that_lower(*peak, sites, before, curves)) results.push_back(std::move(site));
  return results;
}

bool add_lowering(Summary& summary, const std::string& path, const Options& options,
                  const Progress& progress) {
  constexpr uint64_t kMostRequests = 100'000;
  // If the arenas' names are hashes, it is not known whose they are.
  if (summary.confidential && !summary.arenas.empty()) return false;
  const std::vector<Changes> settings = settings_of(summary);
  const Peak* const peak = largest_device_peak(summary);
  if (settings.empty() || peak == nullptr) {
    summary.lowering.emplace();
    return false;
  }
  if (peak->counted || summary.quality.log_end == LogEnd::kRunning) return false;
  Lowering lowering{peak->scope, peak->bytes, 0, {}};
  if (const uint64_t requests = requests_of_pools(summary); requests > kMostRequests) {
    lowering.untried_requests = requests;
    summary.lowering = std::move(lowering);
    return false;
  }
  // Names are needed only to tell which two blocks could be one.
  Options reading;
  reading.top = 0;
  reading.reading.sanitizer = options.reading.sanitizer;
  reading.reading.search = options.reading.search;
  reading.reading.search.files &= summary.has_uses;
  reading.reading.rules = {{"none"}, {}, {}};
  reading.reading.heap = HeapReading::kNone;
  ChangedLog before(path, reading, progress, &summary);
  if (!before.has(*peak)) return true;
  for (const WhatIf& what_if : that_lower(*peak, all_settings(summary, *peak, before), before)) {
    const WhatIfSum& sum = what_if.sums.front();
    lowering.rows.push_back(
        {what_if.changes.settings().front(), sum.least_bytes, sum.most_bytes, sum.time_ns,
         what_if.changes.one_for_two ? what_if.changes.one_for_two->titles : ""});
  }
  summary.lowering = std::move(lowering);
  return true;
}

bool add_quick_lowering(Summary& summary, const std::string& path, const Options& options,
                        const Progress& progress) {
  constexpr uint64_t kSmallLog = 4 << 20;
  return summary.has_uses && summary.arenas.empty() && summary.log_bytes <= kSmallLog &&
         add_lowering(summary, path, options, progress);
}

}  // namespace gpupeak::collector
