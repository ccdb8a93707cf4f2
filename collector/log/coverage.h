// Which figures a log supports at all. A figure that was not measured is null in the summary, never
// 0. Used by the metrics, the peaks and the quality warnings.
#pragma once

#include <string_view>

#include "collector/log/log_reader.h"

namespace gpupeak::collector {

struct Coverage {
  bool heap_events = false;  ///< every heap block, or a sample of them
  /// The heap gauge of the counters page counts this process from its start.
  bool heap_counters = false;
  bool mappings = false;
  /// Heap blocks of the windows that somebody asked for, and of no other time.
  bool windows = false;
  bool sampled = false;  ///< small heap blocks are a sample, at least towards the end
  /// Heap and mappings from the start of the process: host sums mean something.
  bool host() const { return heap_events && mappings; }
};

/// Which figures a log with this header and these counters supports.
Coverage coverage_of(const gpupeak_file_header& header, const gpupeak_counters_page& counters);
inline Coverage coverage_of(const LogReader& log) {
  return coverage_of(log.header(), log.counters());
}

/// Whether the peak of this scope is a figure to show.
bool covers_scope(const Coverage& coverage, std::string_view scope);

}  // namespace gpupeak::collector
