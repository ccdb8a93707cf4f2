#include "collector/summary/summary.h"

#include <algorithm>

namespace gpupeak::collector {

std::string_view access_name(KernelAccess access) {
  constexpr std::string_view kNames[] = {"read", "written", "given"};
  return kNames[static_cast<size_t>(access)];
}

bool Holder::has_no_name() const {
  if (parts.empty() || !parts.front().frame.function.empty()) return false;
  return std::ranges::none_of(parts, [](const SitePart& part) { return part.frame.is_python; });
}

std::optional<uint64_t> error_of(const Summary& summary, std::string_view metric) {
  if (metric == "host.memory.peak_bytes") {
    const auto peak = collector::metric(summary.metrics, "host.memory.peak_bytes");
    const auto seen = collector::metric(summary.metrics, "host.memory.seen_bytes");
    return peak && seen && *peak > *seen ? std::optional(*peak - *seen) : std::nullopt;
  }
  // If the heap was sampled, an exact counter still gives the heap's own peak.
  if (summary.quality.heap_sample_bytes == 0 || metric != "host.peak_bytes") return std::nullopt;
  const Peak* peak = summary.find_peak("host");
  return peak != nullptr ? peak->error_bytes : std::nullopt;
}

}  // namespace gpupeak::collector
