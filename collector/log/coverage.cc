#include "collector/log/coverage.h"

#include "collector/log/log_process.h"

namespace gpupeak::collector {

Coverage coverage_of(const gpupeak_file_header& header, const gpupeak_counters_page& counters) {
  const uint32_t mode = header.host_mode;
  // Older logs of forked children have this flag, too.
  const bool from_start = (header.flags & GPUPEAK_FLAG_LATE_START) == 0;
  const bool attached = is_of_attached(header);
  const bool own_malloc = (counters.quality & GPUPEAK_Q_FOREIGN_MALLOC) != 0;
  Coverage coverage;
  constexpr uint64_t kWentOver = GPUPEAK_Q_LOG_MAX | GPUPEAK_Q_HEAP_SAMPLED;
  coverage.sampled = mode == GPUPEAK_HOST_SAMPLED || (counters.quality & kWentOver) != 0;
  coverage.mappings = from_start && !attached && mode != GPUPEAK_HOST_OFF;
  coverage.heap_counters = coverage.mappings && !own_malloc;
  coverage.heap_events =
      from_start && !own_malloc &&
      (mode == GPUPEAK_HOST_FULL || mode == GPUPEAK_HOST_SAMPLED || mode == GPUPEAK_HOST_AUTO);
  coverage.windows = from_start && !own_malloc && mode == GPUPEAK_HOST_COUNTERS &&
                     counters.window_count > 0;
  return coverage;
}

bool covers_scope(const Coverage& coverage, std::string_view scope) {
  if (scope.starts_with("device")) return true;
  if (scope == "host/heap") return coverage.heap_events || coverage.windows;
  if (scope == "host/pinned" || scope == "host/registered" || scope == "host/vmm") return true;
  // A peak of what was recorded; a warning says so.
  if (scope == "host" && coverage.windows) return true;
  if (scope == "total" || scope == "host") return coverage.host();
  return coverage.mappings;
}

}  // namespace gpupeak::collector
